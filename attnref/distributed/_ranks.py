"""The processes that take part in a call, and what is said when one of them is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch.distributed as dist
from torch.distributed import DistError, ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

Group = ProcessGroup | DeviceMesh | None


class Ranks(NamedTuple):
    """Those of a group, as one of them sees it during a call.

    Attributes:
        function: the public function that was called.
        group: of torch.distributed.
        rank: which of them this process is.
        size: how many there are.
    """

    function: str
    group: ProcessGroup
    rank: int
    size: int

    def name(self, rank: int) -> int:
        """The number under which the whole program knows a rank of this group."""
        return dist.get_global_rank(self.group, rank % self.size)

    @contextmanager
    def describe_failure(self, does: str) -> Iterator[None]:
        """Says what was going on when the backend gives up a message."""
        try:
            yield
        except RuntimeError as lost:
            raise DistError(
                f"{self.function}: rank {self.name(self.rank)} gave up while it {does}. A rank of "
                "this group has died, has left with an error, or is later than the group's "
                "timeout: read what it printed last. If it was only slow, pass a longer timeout to "
                f"torch.distributed.init_process_group. The backend says: {lost}"
            ) from lost


def ranks_of(function: str, group: Group, name: str = "group") -> Ranks:
    """Of a group, of a mesh of one dimension, or of all processes for None."""
    if not dist.is_initialized():
        raise ValueError(
            f"{name}: expected processes that know each other, got none. Start the program with "
            "torchrun and call torch.distributed.init_process_group first."
        )
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise ValueError(
                f"{name}: expected a mesh of one dimension, got {group.ndim} of shape "
                f"{tuple(group.shape)}. Take one of them, mesh[dimension], or call mesh_attention."
            )
        group = group.get_group()
    found = dist.group.WORLD if group is None else group
    if not isinstance(found, ProcessGroup):
        raise ValueError(
            f"{name}: expected a group of torch.distributed that this process belongs to, got "
            f"{found!r}. Make it with torch.distributed.new_group, and call this function only on "
            "its ranks."
        )
    return Ranks(function, found, dist.get_rank(found), dist.get_world_size(found))
