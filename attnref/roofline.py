"""The roofline: whether arithmetic or memory limits a method on a machine.

What a method does is counted by :mod:`attnref.cost`; what a machine can do, the caller says.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from attnref.cost import Cost

__all__ = ["Machine", "Roofline", "bound"]


@dataclass(frozen=True)
class Machine:
    """What a machine does at best; the numbers are the caller's, measured or from its maker.

    ``operations_per_second`` says for each dtype how many operations it does, a multiplication
    and an addition counted as two; ``bytes_per_second`` how fast its main memory is.

    Round numbers of no existing machine:

    Examples:
        >>> machine = Machine("example", {torch.float16: 1e13}, bytes_per_second=1e11)
    """

    name: str
    operations_per_second: Mapping[torch.dtype, float]
    bytes_per_second: float


@dataclass(frozen=True)
class Roofline:
    """What limits a method on a machine, and the least time that it takes there.

    ``intensity`` is the method's operations per byte, ``balance`` those that the machine can do
    while it moves a byte: a method of less intensity waits for memory.

    Examples:
        >>> Roofline("a laptop", intensity=2.0, balance=10.0, seconds=0.5).bound
        'memory'
    """

    machine: str
    intensity: float
    balance: float
    seconds: float

    @property
    def bound(self) -> str:
        """``"memory"`` or ``"compute"``."""
        return "memory" if self.intensity < self.balance else "compute"

    def __str__(self) -> str:
        return (
            f"{self.bound}-bound on {self.machine}: {self.intensity:.4g} operations per byte, "
            f"balance {self.balance:.4g}, at least {self.seconds:.2g} s"
        )


def bound(cost: Cost, machine: Machine, *, dtype: torch.dtype) -> Roofline:
    r"""Whether arithmetic or memory limits a method on a machine.

    .. math:: t \ge \max\left(\frac{\text{operations}}{\text{operations per second}},
              \frac{\text{bytes}}{\text{bytes per second}}\right)

    Args:
        cost: of the method.
        machine: its speeds.
        dtype: of the arithmetic.

    Returns:
        :class:`Roofline`; printed, it is a sentence.

    Raises:
        ValueError: when the machine has no speed for the dtype, or no bytes are moved.

    A lower bound: arithmetic and traffic overlap perfectly, and every operation runs at the
    speed given, exponentials too.

    Source: Williams, Waterman and Patterson 2009, Communications of the ACM 52(4), 65–76.

    Examples:
        >>> machine = Machine("example", {torch.float16: 1e13}, bytes_per_second=1e11)
        >>> from attnref.cost import Sizes, fused
        >>> for n in (4096, 1):  # prefill, and one step of decoding
        ...     cost = fused(Sizes(n=n, m=4096, d_k=128, d_v=128, dtype=torch.float16))
        ...     print(bound(cost, machine, dtype=torch.float16))
        compute-bound on example: 2064 operations per byte, balance 100, at least 0.00087 s
        memory-bound on example: 1.008 operations per byte, balance 100, at least 2.1e-05 s
    """
    if dtype not in machine.operations_per_second:
        known = ", ".join(map(str, machine.operations_per_second))
        raise ValueError(
            f"dtype: expected one for which machine {machine.name!r} has a speed ({known}), got "
            f"{dtype}. Add it to operations_per_second."
        )
    if not cost.bytes_moved:
        raise ValueError(
            "cost: expected one that moves bytes, got 0 of them. Take it from a function of "
            "attnref.cost, such as fused(sizes)."
        )
    speed = machine.operations_per_second[dtype]
    return Roofline(
        machine.name,
        cost.intensity,
        speed / machine.bytes_per_second,
        max(cost.operations.total / speed, cost.bytes_moved / machine.bytes_per_second),
    )
