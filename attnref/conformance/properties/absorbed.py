"""The factor of a layer whose keys are wider than its queries were, as those of a latent are."""

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnref.conformance.case import Case, Sizes
from attnref.conformance.property import OF_NUMBERS, rule
from attnref.conformance.subject import modules
from attnref.conformance.trial import NOTHING_SUCH, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

WIDER = Text(
    "Its scores are multiplied by 1/sqrt({wide}), the width of the absorbed vectors, though "
    "{name} gives queries of {narrow}: expected 1/sqrt({narrow}), as before they were absorbed."
)

_QUERY = re.compile(r"(.*[._])?(w?q|to_q|query)(_b|_up)?(_proj)?", re.IGNORECASE)
_SAME = 1e-3


class _Scores(TorchFunctionMode):
    """Follows products to a softmax, with what they are multiplied by on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, tuple[Any, int, float]] = {}  # by a tensor: it, width and factor
        self.found: list[tuple[int, float]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").strip("_")
        tensors = [x for x in args if isinstance(x, Tensor)]
        told = [self.known[id(x)] for x in tensors if id(x) in self.known]
        width, factor = (told[0][1], told[0][2]) if told else (0, 1.0)
        number = next((x for x in args if _is_number(x)), None)
        if name == "scaled_dot_product_attention":
            wide = int(tensors[0].shape[-1])
            scale = (kwargs or {}).get("scale")
            self.found.append((wide, factor * (wide**-0.5 if scale is None else scale)))
        elif name in ("matmul", "bmm"):
            both = [self.known.get(id(x), (x, 0, 1.0))[2] for x in tensors]
            self._note(output, int(tensors[0].shape[-1]), both[0] * both[1])
        elif name in _TIMES and number is not None:
            times = float(number)
            times = times if "mul" in name else 1 / times
            self._note(output, width, factor * times)
        elif name == "softmax" and width:
            self.found.append((width, factor))
        elif told and isinstance(output, Tensor):
            self._note(output, width, factor)
        return output

    def _note(self, output: Tensor, width: int, factor: float) -> None:
        self.known[id(output)] = (output, width, factor)  # which keeps it, and its id


_TIMES = ("mul", "rmul", "imul", "mul_", "div", "truediv", "itruediv", "div_")


def _is_number(x: object) -> bool:
    return isinstance(x, int | float) or (isinstance(x, Tensor) and x.ndim == 0)


def _queries(layers: list[nn.Module]) -> Iterator[tuple[str, int]]:
    """The projections of queries, and how many features each gives."""
    for layer in layers:
        for name, module in layer.named_modules():
            if isinstance(module, nn.Linear) and _QUERY.fullmatch(name):
                yield name, module.out_features


@rule(
    statement=Text(
        "The factor is that of the queries' own width, where they are absorbed into wider ones."
    ),
    formula=r"c = 1/\sqrt{d_{\text{nope}} + d_{\text{rope}}}",
    page="variants/latent",
    sizes=Sizes(batch=1, heads=1),
    asked_of=("function",),
    holds_of="any",
    follows=OF_NUMBERS,
)
def absorbed_scale(trial: Trial, case: Case) -> Finding | None:
    if trial.subject.apart:
        return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH)
    with torch.no_grad(), _Scores() as seen:
        trial.call(case.query, case.key, case.value)
    heads = trial.subject.heads
    for name, features in _queries(modules(trial.subject.function)[:1]):
        narrow = features // max(1, heads)
        for wide, factor in seen.found:
            near = abs(factor * wide**0.5 - 1) < _SAME
            if heads and narrow % wide and features % heads == 0 and near:
                return trial.failure(WIDER, wide=wide, narrow=narrow, name=name)
            if narrow != wide:
                return None
    return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH)
