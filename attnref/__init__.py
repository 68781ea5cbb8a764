"""attnref: scaled dot-product attention, as reference and as text.

The definition is :func:`scaled_dot_product_attention`; :mod:`attnref.oracle` holds
the second opinion, written in NumPy; :mod:`attnref.masks` and :mod:`attnref.scaling`
hold what its arguments ``attn_mask`` and ``scale`` are made of.
"""

from attnref import masks, scaling
from attnref.reference import attention_weights, scaled_dot_product_attention

__version__ = "0.1.0"

__all__ = [
    "attention_weights",
    "masks",
    "scaled_dot_product_attention",
    "scaling",
]
