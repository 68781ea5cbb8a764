"""Inputs of a property: sizes, and seeded tensors of these sizes."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

_FEW = (1, 2, 3, 4, 5)  # sizes that are tried below the given ones


@dataclass(frozen=True)
class Sizes:
    """The dimensions of one call. All that may differ do, so that no swapped axis stays unseen.

    ``n`` and ``m`` are equal, and so are ``d_k`` and ``d_v``, unless a property is about their
    difference: a function may legitimately want them equal.
    """

    batch: int = 2
    heads: int = 3
    key_heads: int | None = None  # as many as heads
    n: int = 7
    m: int | None = None  # as many as n
    d_k: int = 8
    d_v: int | None = None  # as wide as d_k
    keep: tuple[str, ...] = ()  # what a smaller call must not change

    def shrink(self) -> Iterator["Sizes"]:
        """All sizes below these, the smallest first; what is equal stays equal."""
        choices = []
        for name in ("batch", "heads", "key_heads", "n", "m", "d_k", "d_v"):
            most = getattr(self, name)
            few = [] if most is None or name in self.keep else [x for x in _FEW if x < most]
            choices.append([*few, most])
        candidates = [Sizes(*choice) for choice in itertools.product(*choices)]
        candidates = [each for each in candidates if each.sound()]
        candidates.sort(key=Sizes.numbers)
        yield from candidates[:-1]

    def fit(self, step: int, width: int) -> "Sizes":
        """The same with the next multiples of ``step`` for lengths, and vectors of ``width``."""
        n = -(-self.n // step) * step
        m = self.m if self.m is None else -(-self.m // step) * step
        m = n + step if m == n else m  # what differs goes on to differ
        return replace(self, n=n, m=m, d_k=width)

    def can_be(self, width: int) -> bool:
        """Whether vectors of that width say the same: where nothing is about theirs, or exact."""
        exact = math.isqrt(width) ** 2 == width
        return self.d_v is None and (exact or "d_k" not in self.keep)

    def sound(self) -> bool:
        """Whether each key head serves an equal number of heads."""
        return self.heads % (self.key_heads or self.heads) == 0

    def numbers(self) -> int:
        """How many numbers a reader of such a call has to read."""
        m, d_v = self.m or self.n, self.d_v or self.d_k
        key_heads = self.key_heads or self.heads
        per_sample = self.heads * self.n * self.d_k + key_heads * m * (self.d_k + d_v)
        return self.batch * per_sample


@dataclass(frozen=True)
class Case:
    """Query, key and value in float64 on the CPU, and the seed of whatever else is drawn.

    ``query`` is ``(batch, heads, n, d_k)``, ``key`` and ``value`` are
    ``(batch, key_heads, m, d_k or d_v)``.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    seed: int

    @staticmethod
    def draw(sizes: Sizes, seed: int) -> "Case":
        """Independent standard normal numbers."""
        generator = torch.Generator().manual_seed(seed)
        keys = (sizes.batch, sizes.key_heads or sizes.heads, sizes.m or sizes.n)
        shapes = (
            (sizes.batch, sizes.heads, sizes.n, sizes.d_k),
            (*keys, sizes.d_k),
            (*keys, sizes.d_v or sizes.d_k),
        )
        query, key, value = (
            torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
        )
        return Case(query, key, value, seed)

    def generator(self) -> torch.Generator:
        """For what a property draws beside these tensors, the same in each run."""
        return torch.Generator().manual_seed(self.seed + 1)

    def round(self, decimals: int) -> "Case":
        """The same case in numbers that are easier to read."""
        query, key, value = (
            tensor.round(decimals=decimals) + 0.0 for tensor in (self.query, self.key, self.value)
        )
        return replace(self, query=query, key=key, value=value)
