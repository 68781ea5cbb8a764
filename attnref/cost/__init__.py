r"""Exact cost of attention: operations, bytes moved, peak memory, parameters and cache.

:func:`of` counts every method by its name, from :class:`Sizes` to :class:`Cost`, as a program that
is known line by line. The rules of counting:

- *Operations.* One addition, subtraction, multiplication, division or maximum of two
  floating-point numbers is one operation; so is one exponential or logarithm, which have a
  count of their own because hardware computes them elsewhere, more slowly. A sum, a maximum or
  a product of matrices starts from an accumulator: d numbers cost d operations, a product of
  ``(n × d)`` and ``(d × m)`` costs ``2nmd``, and a bias, being the
  accumulator, costs none.
- *Not operations:* comparisons and selections (``where``, ``masked_fill``), absolute values,
  logic on booleans, conversions, copies, arithmetic on indices. They may still move bytes.
- *Bytes moved.* Each line is one kernel: it reads each of its tensors once from main memory
  and writes its result once. Views move nothing.
- *Peak.* The most bytes alive at one time that the method allocates, its output included and
  its arguments not; a tensor is freed after its last use.

Examples:
    >>> from attnref import cost
    >>> sizes = cost.Sizes(n=512, m=512, d_k=64, d_v=64, num_heads=12)
    >>> [cost.of(method, sizes).operations.matmul for method in ("plain", "linear")]
    [805306368, 100663296]
"""

from attnref.cost.context_parallel import RankCost, rank_pairs, ring
from attnref.cost.layers import feedforward, multihead, parameters
from attnref.cost.links import Link, RankTime, hiding_length, mesh_time
from attnref.cost.messages import Sent, sent
from attnref.cost.methods import of
from attnref.cost.operations import Cost, Operations
from attnref.cost.paged_cache import Slots, slots
from attnref.cost.pairs import Tiles, allowed_pairs, tiles, useful_share
from attnref.cost.sizes import Sizes

# In the order in which the reference shows them.
__all__ = [  # noqa: RUF022
    "of",
    "Cost",
    "Operations",
    "Sizes",
    "multihead",
    "feedforward",
    "parameters",
    "allowed_pairs",
    "Tiles",
    "tiles",
    "useful_share",
    "Slots",
    "slots",
    "rank_pairs",
    "RankCost",
    "ring",
    "Sent",
    "sent",
    "Link",
    "RankTime",
    "mesh_time",
    "hiding_length",
]
