"""Where NaN and inf first appear in a pass, without a wait for the device after each module."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnref.watching.findings import FIRST_AFTER, FIRST_OUT, Finding, Level
from attnref.watching.statistics import lost


class Births:
    """What modules got and gave, in the order in which they ended: only whether it is finite."""

    def __init__(self) -> None:
        # By module: its name and class, and what holds NaN or inf, said on its device.
        self._modules: list[tuple[str, str, Tensor | None, Tensor]] = []

    def __len__(self) -> int:
        return len(self._modules)

    def add(self, name: str, kind: str, inputs: Any, output: Any) -> None:
        """A module ended."""
        went = _lost(output)
        if went is not None:
            self._modules.append((name, kind, _lost(inputs), went))

    def leave_out(self, which: Callable[[str], bool]) -> None:
        """Those modules are looked at elsewhere."""
        self._modules = [each for each in self._modules if not which(each[0])]

    def first(self) -> tuple[Finding, str] | None:
        """The first module that made NaN or inf, unless the model was given it; begins again."""
        modules, self._modules = self._modules, []
        for device in {went.device for *_, went in modules}:
            here = [each for each in modules if each[3].device == device]
            flags = [x for *_, came, went in here for x in (went if came is None else came, went)]
            pairs = torch.stack([x.to(device) for x in flags]).view(-1, 2)
            if bool(pairs.any()):
                return _first(here, pairs.tolist())
        return None


def _first(
    modules: list[tuple[str, str, Tensor | None, Tensor]], flags: list[list[bool]]
) -> tuple[Finding, str] | None:
    for place, (came, went) in enumerate(flags):
        name, kind, known, _ = modules[place]
        sure = known is not None and not came
        if went and (sure or (place and not any(before for _, before in flags[:place]))):
            about = {"kind": kind, "before": modules[place - 1][0]}
            text = FIRST_OUT if sure else FIRST_AFTER
            return Finding(Level.WRONG, text, "pitfalls/numerics", about), name
    return None


def _lost(given: Any) -> Tensor | None:
    """Whether one of those tensors holds NaN or inf; None where there is none of numbers."""
    tensors = given if isinstance(given, tuple | list) else (given,)
    found = [lost(x) for x in tensors if isinstance(x, Tensor) and x.is_floating_point()]
    some = [x for x in found if x is not None]
    return some[0] if len(some) == 1 else torch.stack(some).any() if some else None
