"""The roofline: whether products, exponentials or memory limit a method on a machine.

What a method does is counted by :mod:`attnref.cost`; what a machine can do, the caller says.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from attnref.checks import check_number
from attnref.cost import Cost

__all__ = ["Machine", "Roofline"]


@dataclass(frozen=True)
class Roofline:
    """What limits a method on a machine, and the least time that it takes there.

    ``intensity`` is the method's operations per byte, ``balance`` those that the machine can do
    while it moves a byte: a method of less intensity waits for memory. ``parts`` says how many
    seconds each unit needs for its share alone: ``"compute"``, ``"memory"`` and, on a machine
    with a unit for them, ``"exponential"``. The slowest sets the least time, ``seconds``; units
    that wait for each other take up to the sum of the parts.

    Examples:
        >>> found = Roofline("a laptop", 2.0, 10.0, {"compute": 0.1, "memory": 0.5})
        >>> found.bound, found.seconds
        ('memory', 0.5)
    """

    machine: str
    intensity: float
    balance: float
    parts: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """The least time: that of the slowest unit."""
        return max(self.parts.values())

    @property
    def bound(self) -> str:
        """``"compute"``, ``"exponential"`` or ``"memory"``; of equal ones the first named."""
        return max(self.parts, key=self.parts.__getitem__)

    def __str__(self) -> str:
        return (
            f"{self.bound}-bound on {self.machine}: {self.intensity:.4g} operations per byte, "
            f"balance {self.balance:.4g}, at least {self.seconds:.2g} s"
        )


@dataclass(frozen=True)
class Machine:
    """What a machine does at best; the numbers are the caller's, measured or from its maker.

    ``operations_per_second`` says for each dtype how many operations it does, a multiplication
    and an addition counted as two; ``bytes_per_second`` how fast its main memory is.
    ``exponentials_per_second`` is for a machine that computes exponentials in a unit of their
    own, beside the others; with None they count as operations like all others.

    Round numbers of no existing machine:

    Examples:
        >>> machine = Machine("example", {torch.float16: 1e13}, bytes_per_second=1e11)
    """

    name: str
    operations_per_second: Mapping[torch.dtype, float]
    bytes_per_second: float
    exponentials_per_second: float | None = None

    def roofline(self, cost: Cost, *, dtype: torch.dtype) -> Roofline:
        r"""Which limits a method on this machine: arithmetic, exponentials or memory.

            t ≥ max(operations / operations per second,
                    exponentials / exponentials per second,
                    bytes / bytes per second)

        The second quotient exists on a machine with ``exponentials_per_second``; its numerator is
        then no part of the first. Otherwise exponentials are operations like all others.

        Args:
            cost: of the method.
            dtype: of the arithmetic.

        Returns:
            :class:`Roofline`; printed, it is a sentence.

        Raises:
            ValueError: when the machine has no speed for the dtype, or no bytes are moved.
            TypeError, ValueError: for a speed that is not a positive, finite number.
            TypeError: for a cost of another type.

        A lower bound: all units work at the same time and without a pause, and every operation,
        in a product or not, runs at the speed given.

        Source: Williams, Waterman and Patterson 2009, Communications of the ACM 52(4), 65–76; with
        exponentials, Zadouri et al. 2026, arXiv 2603.05451.

        Examples:
            >>> machine = Machine("example", {torch.float16: 1e13}, bytes_per_second=1e11)
            >>> from attnref import cost
            >>> for n in (4096, 1):  # prefill, and one step of decoding
            ...     sizes = cost.Sizes(n=n, m=4096, d_k=128, d_v=128, dtype=torch.float16)
            ...     print(machine.roofline(cost.of("fused", sizes), dtype=torch.float16))
            compute-bound on example: 2064 operations per byte, balance 100, at least 0.00087 s
            memory-bound on example: 1.008 operations per byte, balance 100, at least 2.1e-05 s
            >>> slow = Machine("slow", {torch.float16: 1e13}, 1e11, exponentials_per_second=1e10)
            >>> prefill = cost.Sizes(n=4096, m=4096, d_k=128, d_v=128, dtype=torch.float16)
            >>> slow.roofline(cost.of("fused", prefill), dtype=torch.float16).bound
            'exponential'
        """
        if not isinstance(cost, Cost):
            raise TypeError(
                f"cost: expected a Cost, got {type(cost).__name__}. Take it from "
                'attnref.cost, such as cost.of("fused", sizes).'
            )
        if dtype not in self.operations_per_second:
            known = ", ".join(map(str, self.operations_per_second))
            raise ValueError(
                f"dtype: expected one for which machine {self.name!r} has a speed ({known}), got "
                f"{dtype}. Add it to operations_per_second."
            )
        if not cost.bytes_moved:
            raise ValueError(
                "cost: expected one that moves bytes, got 0 of them. Take it from "
                'attnref.cost, such as cost.of("fused", sizes).'
            )
        _check_speeds(self, dtype)
        speed, rate = self.operations_per_second[dtype], self.exponentials_per_second
        spent = cost.operations
        if rate is None:
            parts = {"compute": spent.total / speed}
        else:
            others = spent.total - spent.exponentials
            parts = {"compute": others / speed, "exponential": spent.exponentials / rate}
        parts["memory"] = cost.bytes_moved / self.bytes_per_second
        return Roofline(self.name, cost.intensity, speed / self.bytes_per_second, parts)


def _check_speeds(machine: Machine, dtype: torch.dtype) -> None:
    """Zero would divide by zero; a negative speed would let its unit cost less than nothing."""
    speeds = {
        "operations_per_second": machine.operations_per_second[dtype],
        "bytes_per_second": machine.bytes_per_second,
    }
    if machine.exponentials_per_second is not None:
        speeds["exponentials_per_second"] = machine.exponentials_per_second
    for name, speed in speeds.items():
        advice = f"It is a speed of machine {machine.name!r}, measured or from its maker."
        if not 0 < check_number(name, speed, advice, most="a positive number") < math.inf:
            raise ValueError(f"{name}: expected a positive number, got {speed}. {advice}")
