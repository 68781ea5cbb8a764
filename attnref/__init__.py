"""attnref: scaled dot-product attention, as reference and as text.

The definition is :func:`scaled_dot_product_attention`, and :func:`attend` is it with its weights;
:mod:`attnref.oracle` holds the second opinion, written in NumPy. Around them, one idea per module:
what its arguments are made of (``masks``, ``scaling``, ``adaptive_scaling``, ``bounded_scores``,
``positions``), what it is made of (``softmax``, ``similarity``), what is made of it
(``MultiHeadAttention``, ``KVCache``, ``StreamingCache``, ``PagedCache``), how to measure it
(``score_statistics``, ``cost``, ``roofline``), and its ``variants``, whose functions are here too,
loaded when they are first named.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from attnref import (
    adaptive_scaling,
    bounded_scores,
    cost,
    masks,
    positions,
    roofline,
    scaling,
    score_statistics,
    similarity,
    softmax,
)
from attnref.cache import KVCache
from attnref.masks import Mask
from attnref.multihead import MultiHeadAttention
from attnref.paged_cache import PagedCache
from attnref.reference import Attention, attend, attention_weights, scaled_dot_product_attention
from attnref.streaming_cache import StreamingCache

if TYPE_CHECKING:
    from attnref import oracle as oracle
    from attnref import variants as variants
    from attnref.variants import *  # noqa: F403

__version__ = "0.1.0"

__all__ = [
    "Attention",
    "KVCache",
    "Mask",
    "MultiHeadAttention",
    "PagedCache",
    "StreamingCache",
    "adaptive_scaling",
    "attend",
    "attention_weights",
    "bounded_scores",
    "cost",
    "masks",
    "positions",
    "roofline",
    "scaled_dot_product_attention",
    "scaling",
    "score_statistics",
    "similarity",
    "softmax",
]


if not TYPE_CHECKING:  # or a checker would take every name for one of these

    def __getattr__(name: str) -> object:
        """What ``import attnref`` does not load: two modules, and what the variants offer."""
        if name in ("oracle", "variants"):
            return import_module(f"attnref.{name}")
        variants = import_module("attnref.variants")
        if name in variants.__all__:
            return getattr(variants, name)
        raise AttributeError(f"module 'attnref' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(
            {*globals(), "oracle", "variants", *import_module("attnref.variants").__all__}
        )
