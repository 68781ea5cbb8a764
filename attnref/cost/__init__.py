r"""Exact cost of attention: operations, bytes moved, peak memory, parameters and cache.

Each method is a function from :class:`Sizes` to :class:`Cost`, and counts the program that its
docstring shows. The rules of counting:

- *Operations.* One addition, subtraction, multiplication, division or maximum of two
  floating-point numbers is one operation; so is one exponential or logarithm, which have a
  count of their own because hardware computes them elsewhere, more slowly. A sum, a maximum or
  a product of matrices starts from an accumulator: d numbers cost d operations, a product of
  :math:`(n\times d)` and :math:`(d\times m)` costs :math:`2nmd`, and a bias, being the
  accumulator, costs none.
- *Not operations:* comparisons and selections (``where``, ``masked_fill``), absolute values,
  logic on booleans, conversions, copies, arithmetic on indices. They may still move bytes.
- *Bytes moved.* Each line is one kernel: it reads each of its tensors once from main memory
  and writes its result once. Views move nothing.
- *Peak.* The most bytes alive at one time that the method allocates, its output included and
  its arguments not; a tensor is freed after its last use.

Examples:
    >>> sizes = Sizes(n=512, m=512, d_k=64, d_v=64, num_heads=12)
    >>> plain(sizes).operations.matmul, linear(sizes).operations.matmul
    (805306368, 100663296)
"""

from attnref.cost.biased_attention import distance_bias
from attnref.cost.chosen_attention import block_pairs, indexer, moba, native_sparse
from attnref.cost.context_parallel import Pairs, RankCost, rank_pairs, ring, ring_backward
from attnref.cost.differential_attention import differential
from attnref.cost.gated_delta_attention import gated_delta
from attnref.cost.latent_attention import latent
from attnref.cost.layers import (
    feedforward,
    feedforward_parameters,
    multihead,
    multihead_parameters,
)
from attnref.cost.linear_attention import linear
from attnref.cost.links import Link, RankTime, hiding_length, mesh_time
from attnref.cost.messages import Sent, gather_bytes, mesh_bytes, split_kv_bytes
from attnref.cost.operations import Cost, Operations
from attnref.cost.paged_cache import Slots, slots
from attnref.cost.pairs import Tiles, allowed_pairs, tiles, useful_share
from attnref.cost.quantized_attention import quantized
from attnref.cost.sizes import Sizes
from attnref.cost.softmax_attention import (
    blockwise,
    blockwise_backward,
    fused,
    plain,
    plain_backward,
    reference,
)

# In the order in which the reference shows them.
__all__ = [  # noqa: RUF022
    "Operations",
    "Cost",
    "Sizes",
    "allowed_pairs",
    "Tiles",
    "tiles",
    "useful_share",
    "plain",
    "plain_backward",
    "fused",
    "blockwise",
    "blockwise_backward",
    "reference",
    "linear",
    "latent",
    "gated_delta",
    "differential",
    "distance_bias",
    "quantized",
    "Slots",
    "slots",
    "Pairs",
    "rank_pairs",
    "RankCost",
    "ring",
    "ring_backward",
    "Sent",
    "mesh_bytes",
    "gather_bytes",
    "split_kv_bytes",
    "Link",
    "RankTime",
    "mesh_time",
    "hiding_length",
    "block_pairs",
    "moba",
    "indexer",
    "native_sparse",
    "multihead",
    "multihead_parameters",
    "feedforward",
    "feedforward_parameters",
]
