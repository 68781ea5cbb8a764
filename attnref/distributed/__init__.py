"""Attention across devices: a sequence that several processes share, on ``torch.distributed``.

Each rank of a group calls the same function on its part of the sequence; ``torchrun`` starts them.
:func:`shard` cuts a tensor into such parts and :func:`gather` puts it together.
"""

from attnref.distributed.layouts import gather, positions, shard
from attnref.distributed.ring import ring_attention

# In the order in which the reference shows them.
__all__ = [  # noqa: RUF022
    "positions",
    "shard",
    "gather",
    "ring_attention",
]
