"""What a method of attention is, said once, by itself: a record at the end of its module.

Whatever wants to call all methods asks their records: the contract that the tests hold them to, the
benchmark, the tables of the pages. Nothing else says how a method is called.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

# A norm of the difference to softmax attention, relative to its own norm.
RELATIVE = "|output - softmax attention| / |softmax attention|"


@dataclass(frozen=True)
class Example:
    """Three tensors for which a call is wanted, and where its other numbers are drawn from.

    ``query`` is ``(..., n, d_k)``, ``key`` and ``value`` are ``(..., m, d_k)`` and ``(..., m,
    d_v)``, with equal leading dimensions, or fewer heads in dimension -3 of key and value.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    generator: torch.Generator = field(default_factory=torch.Generator)

    @property
    def n(self) -> int:
        return self.query.shape[-2]

    @property
    def m(self) -> int:
        return self.key.shape[-2]

    @property
    def d_k(self) -> int:
        return self.query.shape[-1]

    @property
    def heads(self) -> int:
        return self.query.shape[-3] if self.query.ndim > 2 else 1

    @property
    def all_keys(self) -> int:
        """How many stand for all: above 1024² pairs fewer, or no method could save memory."""
        return max(1, self.m if self.n * self.m <= 1024**2 else min(self.m, 1024))

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {"query": self.query, "key": self.key, "value": self.value}

    def randn(self, *shape: int) -> Tensor:
        """Normal numbers, the same in all dtypes, as the query is."""
        device = self.generator.device
        drawn = torch.randn(shape, generator=self.generator, dtype=torch.float64, device=device)
        return drawn.to(self.query)


Arguments = Callable[[Example], dict[str, Any]]
Attention = Callable[..., Tensor]


def _no_arguments(_: Example) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Error:
    """How far an approximation may be from what it stands for, and in what that is measured."""

    bound: float
    measure: str = RELATIVE


@dataclass(frozen=True, kw_only=True)
class Method:
    """How a method is called, and what its output equals.

    Args:
        function: the method, which is called as its function is, without ``_attention``.
        page: the page of the book that explains it.
        formula: takes the same arguments and computes the output by the definition, or by the
            method's own formula over all pairs; None where its tests have it.
        example: what is passed beside query, key and value, or in their place, for tensors of any
            size: a case in which the method does what it is for.
        plain: likewise, arguments with which it is the definition; None where it never is.
        adapted: the definition's call, where that takes more than arguments.
        family: "softmax", "kernel" (features in the place of exponentials) or "recurrence".
        error: of an approximation that has a bound.
        lengths: "any", "equal" (n = m) or "newest" (n <= m).
        masks: what ``attn_mask`` may be: "all", "objects" alone, or masks over "keys" alone.
        dimensions: how many a query has at least.
        causal: it is so unasked.
        least_scale: the smallest factor that it takes.
        isolates: NaN and inf that a "mask" of keys leaves out, or that are later in "causal"
            attention, and reach no query.
        leaks: arguments whose later tokens have no weight in causal attention, and yet decide what
            earlier queries meet.
        ways: options, and values that change how the output is computed, and not what it is.
        derivatives: how often gradients can be taken; once more is refused.
        constants: the arguments that get none.
        neutral: options that are there for the sake of the call, and take their default alone.
        tasks: the benchmark's, in which it is measured.
        peers: distributions that have the method, too.
    """

    function: Attention
    page: str
    formula: Attention | None
    example: Arguments = _no_arguments
    plain: Arguments | None = _no_arguments
    adapted: Attention | None = None
    family: str = "softmax"
    error: Error | None = None
    lengths: str = "any"
    masks: str = "all"
    dimensions: int = 2
    causal: bool = False
    least_scale: float = -math.inf
    isolates: tuple[str, ...] = ("mask", "causal")
    leaks: tuple[str, ...] = ()
    ways: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    derivatives: int = 2
    constants: tuple[str, ...] = ("attn_mask",)
    neutral: tuple[str, ...] = ("dropout_p",)
    tasks: tuple[str, ...] = ("dense",)
    peers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.function.__name__.removesuffix("_attention")

    @cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def takes(self, option: str) -> bool:
        return option in self.signature.parameters and option not in self.neutral

    def arguments(self, example: Example, **known: Any) -> dict[str, Any]:
        """All arguments of the example's call by name, with those that are ``known`` already."""
        return self._select(example.tensors | self.example(example) | known)

    def call(self, example: Example) -> str:
        """The call of the example in writing: numbers as they are, and tensors by name."""
        written = []
        for name, one in self.arguments(example).items():
            parameter = self.signature.parameters[name]
            text = name if isinstance(one, Tensor) else repr(one)
            if parameter.default is not inspect.Parameter.empty and parameter.default == one:
                continue
            keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
            written.append(f"{name}={text}" if keyword else text)
        if self.takes("is_causal"):
            written.append("is_causal=True")
        return f"{self.function.__name__}({', '.join(written)})"

    def as_definition(self) -> Attention | None:
        """A function of query, key and value that is the definition, where the method can be it."""
        return None if self.plain is None else self._function(self.plain, self.adapted)

    def as_called(self) -> Attention:
        """A function of query, key and value that calls the method once, by ``plain`` if it can."""
        return self._function(self.plain or self.example)

    def _function(self, given: Arguments, adapted: Attention | None = None) -> Attention:
        """With the options of the definition that the method takes, under its signature."""

        def attention(
            query: Tensor, key: Tensor, value: Tensor, *masks: Any, **options: Any
        ) -> Tensor:
            if masks:
                (options["attn_mask"],) = masks
            if adapted is not None:
                return adapted(query, key, value, **options)
            example = Example(query, key, value)
            return self.function(**self._select(example.tensors | given(example) | options))

        tiny = torch.ones(1, 2, 2, 2)
        made = given(Example(tiny, tiny, tiny))
        three = list(inspect.signature(attention).parameters.values())[:3]
        options = [
            one
            for name, one in self.signature.parameters.items()
            if one.default is not one.empty and name not in (*made, *self.neutral)
        ]
        whole = self.signature.replace(parameters=[*three, *options])
        attention.__signature__ = whole  # type: ignore[attr-defined]
        return attention

    def _select(self, given: dict[str, Any]) -> dict[str, Any]:
        return {name: given[name] for name in self.signature.parameters if name in given}
