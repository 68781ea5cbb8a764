"""attnref: scaled dot-product attention, as reference and as text.

The definition is :func:`scaled_dot_product_attention`; :mod:`attnref.oracle` holds the second
opinion, written in NumPy. Around them, one idea a module: what its arguments are made of
(``masks``, ``scaling``, ``adaptive_scaling``, ``bounded_scores``, ``positions``), what it is made
of (``softmax``, ``similarity``), what is made of it (``MultiHeadAttention``, ``KVCache``), and how
to measure it (``score_statistics``, ``cost``, ``roofline``).
"""

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
from attnref.multihead import KVCache, MultiHeadAttention
from attnref.reference import attention_weights, scaled_dot_product_attention

__version__ = "0.1.0"

__all__ = [
    "KVCache",
    "MultiHeadAttention",
    "adaptive_scaling",
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
