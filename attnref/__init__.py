"""attnref: scaled dot-product attention, as reference and as text.

The definition is :func:`scaled_dot_product_attention`, and :func:`attend` is it with its weights;
:mod:`attnref.oracle` holds the second opinion, written in NumPy. Around them, one idea per module:
what its arguments are made of (``masks``, ``scaling``, ``adaptive_scaling``, ``bounded_scores``,
``positions``), what it is made of (``softmax``, ``similarity``), what is made of it
(``MultiHeadAttention``, ``KVCache``, ``StreamingCache``, ``PagedCache``), how to measure it
(``score_statistics``, ``cost``, ``roofline``), and its variants, ``…_attention``. :func:`check`
judges an attention of yours, :func:`watch` shows what the attention of a running model does, and
:mod:`attnref.distributed` spreads one over several devices. What is named here is public, and is
loaded when it is first named.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnref import adaptive_scaling as adaptive_scaling
    from attnref import bounded_scores as bounded_scores
    from attnref import conformance as conformance
    from attnref import cost as cost
    from attnref import distributed as distributed
    from attnref import masks as masks
    from attnref import oracle as oracle
    from attnref import positions as positions
    from attnref import roofline as roofline
    from attnref import scaling as scaling
    from attnref import score_statistics as score_statistics
    from attnref import similarity as similarity
    from attnref import softmax as softmax
    from attnref import watching as watching
    from attnref.cache import KVCache as KVCache
    from attnref.conformance import check as check
    from attnref.conformance import check_steps as check_steps
    from attnref.masks import Mask as Mask
    from attnref.multihead import MultiHeadAttention as MultiHeadAttention
    from attnref.paged_cache import PagedCache as PagedCache
    from attnref.paged_cache import PagedSequence as PagedSequence
    from attnref.reference import Attention as Attention
    from attnref.reference import attend as attend
    from attnref.reference import attention_weights as attention_weights
    from attnref.reference import scaled_dot_product_attention as scaled_dot_product_attention
    from attnref.streaming_cache import StreamingCache as StreamingCache
    from attnref.variants.block_sparse import block_sparse_attention as block_sparse_attention
    from attnref.variants.blockwise import blockwise_attention as blockwise_attention
    from attnref.variants.differential import LearnedLambda as LearnedLambda
    from attnref.variants.differential import differential_attention as differential_attention
    from attnref.variants.distance_bias import distance_bias_attention as distance_bias_attention
    from attnref.variants.gated_delta import gated_delta_attention as gated_delta_attention
    from attnref.variants.gated_delta import (
        gated_delta_attention_step as gated_delta_attention_step,
    )
    from attnref.variants.hierarchical import hierarchical_attention as hierarchical_attention
    from attnref.variants.indexer import indexer_attention as indexer_attention
    from attnref.variants.indexer import indexer_choice as indexer_choice
    from attnref.variants.kv_cache import kv_cache_attention as kv_cache_attention
    from attnref.variants.latent import latent_attention as latent_attention
    from attnref.variants.linear import LinearState as LinearState
    from attnref.variants.linear import linear_attention as linear_attention
    from attnref.variants.linear import linear_attention_step as linear_attention_step
    from attnref.variants.linear import linear_state as linear_state
    from attnref.variants.linformer import linformer_attention as linformer_attention
    from attnref.variants.linformer import mean_projection as mean_projection
    from attnref.variants.lsh import lsh_attention as lsh_attention
    from attnref.variants.lsh import random_rotations as random_rotations
    from attnref.variants.moba import moba_attention as moba_attention
    from attnref.variants.moba import moba_choice as moba_choice
    from attnref.variants.native_sparse import native_sparse_attention as native_sparse_attention
    from attnref.variants.native_sparse import native_sparse_choice as native_sparse_choice
    from attnref.variants.nystrom import nystrom_attention as nystrom_attention
    from attnref.variants.paged import paged_attention as paged_attention
    from attnref.variants.performer import performer_attention as performer_attention
    from attnref.variants.performer import random_projection as random_projection
    from attnref.variants.quantized import QuantizedTokens as QuantizedTokens
    from attnref.variants.quantized import quantize as quantize
    from attnref.variants.quantized import quantized_attention as quantized_attention
    from attnref.variants.sliding_window import sliding_window_attention as sliding_window_attention
    from attnref.variants.topk import topk_attention as topk_attention
    from attnref.variants.varlen import varlen_attention as varlen_attention
    from attnref.watching import compare as compare
    from attnref.watching import watch as watch

__version__ = "0.1.0"

__all__ = [
    "Attention",
    "KVCache",
    "LearnedLambda",
    "LinearState",
    "Mask",
    "MultiHeadAttention",
    "PagedCache",
    "PagedSequence",
    "QuantizedTokens",
    "StreamingCache",
    "adaptive_scaling",
    "attend",
    "attention_weights",
    "block_sparse_attention",
    "blockwise_attention",
    "bounded_scores",
    "check",
    "check_steps",
    "compare",
    "conformance",
    "cost",
    "differential_attention",
    "distance_bias_attention",
    "distributed",
    "gated_delta_attention",
    "gated_delta_attention_step",
    "hierarchical_attention",
    "indexer_attention",
    "indexer_choice",
    "kv_cache_attention",
    "latent_attention",
    "linear_attention",
    "linear_attention_step",
    "linear_state",
    "linformer_attention",
    "lsh_attention",
    "masks",
    "mean_projection",
    "moba_attention",
    "moba_choice",
    "native_sparse_attention",
    "native_sparse_choice",
    "nystrom_attention",
    "oracle",
    "paged_attention",
    "performer_attention",
    "positions",
    "quantize",
    "quantized_attention",
    "random_projection",
    "random_rotations",
    "roofline",
    "scaled_dot_product_attention",
    "scaling",
    "score_statistics",
    "similarity",
    "sliding_window_attention",
    "softmax",
    "topk_attention",
    "varlen_attention",
    "watch",
    "watching",
]

# ``import attnref`` loads nothing, not even PyTorch: where each name is that is no room.
_MODULES = {
    "Attention": "reference",
    "attend": "reference",
    "attention_weights": "reference",
    "scaled_dot_product_attention": "reference",
    "Mask": "masks",
    "MultiHeadAttention": "multihead",
    "KVCache": "cache",
    "PagedCache": "paged_cache",
    "PagedSequence": "paged_cache",
    "StreamingCache": "streaming_cache",
    "check": "conformance",
    "check_steps": "conformance",
    "block_sparse_attention": "variants.block_sparse",
    "blockwise_attention": "variants.blockwise",
    "LearnedLambda": "variants.differential",
    "differential_attention": "variants.differential",
    "distance_bias_attention": "variants.distance_bias",
    "gated_delta_attention": "variants.gated_delta",
    "gated_delta_attention_step": "variants.gated_delta",
    "hierarchical_attention": "variants.hierarchical",
    "indexer_attention": "variants.indexer",
    "indexer_choice": "variants.indexer",
    "kv_cache_attention": "variants.kv_cache",
    "latent_attention": "variants.latent",
    "LinearState": "variants.linear",
    "linear_attention": "variants.linear",
    "linear_attention_step": "variants.linear",
    "linear_state": "variants.linear",
    "linformer_attention": "variants.linformer",
    "mean_projection": "variants.linformer",
    "lsh_attention": "variants.lsh",
    "random_rotations": "variants.lsh",
    "moba_attention": "variants.moba",
    "moba_choice": "variants.moba",
    "native_sparse_attention": "variants.native_sparse",
    "native_sparse_choice": "variants.native_sparse",
    "nystrom_attention": "variants.nystrom",
    "paged_attention": "variants.paged",
    "performer_attention": "variants.performer",
    "random_projection": "variants.performer",
    "QuantizedTokens": "variants.quantized",
    "quantize": "variants.quantized",
    "quantized_attention": "variants.quantized",
    "sliding_window_attention": "variants.sliding_window",
    "topk_attention": "variants.topk",
    "varlen_attention": "variants.varlen",
    "compare": "watching",
    "watch": "watching",
}


if not TYPE_CHECKING:  # or a checker would take every name for one of these

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'attnref' has no attribute {name!r}")
        if name not in _MODULES:
            return import_module(f"attnref.{name}")
        globals()[name] = found = getattr(import_module(f"attnref.{_MODULES[name]}"), name)
        return found

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]
