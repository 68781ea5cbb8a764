"""Attention across devices: a sequence that several processes share, on ``torch.distributed``.

Each rank of a group calls the same function on its part of the sequence; ``torchrun`` starts them.
:func:`shard` cuts a tensor into such parts and :func:`gather` puts it together.
"""

from attnref.distributed import gathered_keys, mesh, ring, split_kv, ulysses
from attnref.distributed.gathered_keys import gather_attention
from attnref.distributed.layouts import gather, positions, shard
from attnref.distributed.mesh import mesh_attention
from attnref.distributed.ring import ring_attention
from attnref.distributed.split_kv import split_kv_attention
from attnref.distributed.ulysses import ulysses_attention
from attnref.record import Method

# In the order in which the reference shows them.
__all__ = [  # noqa: RUF022
    "positions",
    "shard",
    "gather",
    "ring_attention",
    "gather_attention",
    "ulysses_attention",
    "mesh_attention",
    "split_kv_attention",
]


def records() -> dict[str, Method]:
    """What each method says of itself, by name."""
    return {
        module.METHOD.name: module.METHOD
        for module in (ring, gathered_keys, ulysses, mesh, split_kv)
    }
