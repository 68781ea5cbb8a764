"""Differential attention: one softmax less a part of another, as a reference in float64."""

import functools
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from attnref.text import Text

if TYPE_CHECKING:
    from attnref.conformance.trial import Trial

LAW = Text(
    "differential attention: the softmax of the first halves of queries and keys, less λ = {share} "
    "times the softmax of the second"
)
HALF = re.compile(r"(q|k)(?:uer(?:y|ies)|eys?)?_?([12])")


class Difference(NamedTuple):
    """(softmax(Q₁K₁ᵀ/√d) - λ softmax(Q₂K₂ᵀ/√d)) V, with one λ for each head, ``(h,)``."""

    share: Tensor
    measured: bool = True

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        """The output."""
        from attnref.variants.differential import differential_attention  # loads the variants

        share = self.share.to(query)[:, None, None]
        output: Tensor = differential_attention(query, key, value, share, **options)
        return output

    def line(self) -> tuple[Text, dict[str, object]]:
        """It in words."""
        shares = dict.fromkeys(f"{float(each):.3g}" for each in self.share)
        return LAW, {"share": ", ".join(shares)}


def measure(trial: "Trial", heads: int, width: int) -> Difference:
    """With what is missing from the row of a query of zeros, which weighs all keys alike."""
    zeros = torch.zeros(1, heads, 2, width, dtype=torch.float64)
    return Difference(1 - trial.call(zeros, zeros, zeros + 1.0)[0, :, 0, 0])


def adapt_halves(
    function: Callable[..., Any], signature: inspect.Signature
) -> tuple[Callable[..., Any], inspect.Signature] | None:
    """A function of two queries, two keys and a value as one of three, with halves side by side.

    Examples:
        >>> def attention(q1, k1, q2, k2, v, lambd=0.5): ...
        >>> adapt_halves(attention, inspect.signature(attention))[1]
        <Signature (query, key, v, lambd=0.5)>
    """
    parameters = list(signature.parameters.values())
    halves = [HALF.fullmatch(each.name) for each in parameters[:4]]
    found = sorted(match[1] + match[2] for match in halves if match is not None)
    if found != ["k1", "k2", "q1", "q2"] or len(parameters) < 5:
        return None
    places = [(match[1], int(match[2]) - 1) for match in halves if match is not None]

    @functools.wraps(function)
    def attention(query: Any, key: Any, value: Any, *others: Any, **options: Any) -> Any:
        parts = {"q": query.chunk(2, -1), "k": key.chunk(2, -1)}
        return function(*(parts[of][half] for of, half in places), value, *others, **options)

    usual = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for name in ("query", "key")
    ]
    return attention, signature.replace(parameters=[*usual, *parameters[4:]])
