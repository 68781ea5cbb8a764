"""Variants of attention: the same function computed otherwise, and other functions in its place.

One method per module, each with its formula, its function, its error and its cost; loaded when
it is first named.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from attnref.record import Method

if TYPE_CHECKING:
    from attnref.variants.block_sparse import block_sparse_attention
    from attnref.variants.blockwise import blockwise_attention
    from attnref.variants.differential import differential_attention
    from attnref.variants.distance_bias import distance_bias_attention
    from attnref.variants.gated_delta import gated_delta_attention
    from attnref.variants.hierarchical import hierarchical_attention
    from attnref.variants.indexer import indexer_attention
    from attnref.variants.kv_cache import kv_cache_attention
    from attnref.variants.latent import latent_attention
    from attnref.variants.linear import linear_attention
    from attnref.variants.linformer import linformer_attention
    from attnref.variants.lsh import lsh_attention
    from attnref.variants.moba import moba_attention
    from attnref.variants.native_sparse import native_sparse_attention
    from attnref.variants.nystrom import nystrom_attention
    from attnref.variants.paged import paged_attention
    from attnref.variants.performer import performer_attention
    from attnref.variants.quantized import quantized_attention
    from attnref.variants.sliding_window import sliding_window_attention
    from attnref.variants.topk import topk_attention
    from attnref.variants.varlen import varlen_attention

__all__ = [
    "block_sparse_attention",
    "blockwise_attention",
    "differential_attention",
    "distance_bias_attention",
    "gated_delta_attention",
    "hierarchical_attention",
    "indexer_attention",
    "kv_cache_attention",
    "latent_attention",
    "linear_attention",
    "linformer_attention",
    "lsh_attention",
    "moba_attention",
    "native_sparse_attention",
    "nystrom_attention",
    "paged_attention",
    "performer_attention",
    "quantized_attention",
    "sliding_window_attention",
    "topk_attention",
    "varlen_attention",
]


def records() -> dict[str, Method]:
    """What each method says of itself, by the name of its module."""
    names = [name.removesuffix("_attention") for name in __all__]
    return {name: import_module(f"attnref.variants.{name}").METHOD for name in names}


if not TYPE_CHECKING:  # or a checker would take every name for one of these

    def __getattr__(name: str) -> object:
        """A variant: the function ``<module>_attention``, or its module."""
        module = name.removesuffix("_attention")
        if f"{module}_attention" not in __all__:
            raise AttributeError(f"module 'attnref.variants' has no attribute {name!r}")
        found = import_module(f"attnref.variants.{module}")
        return found if module == name else getattr(found, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
