"""A function beside which another is judged, whatever the two compute."""

import itertools
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref.conformance.case import Case, Sizes
from attnref.conformance.layouts import LAYOUTS
from attnref.conformance.probes import rightness
from attnref.conformance.reading import Reading
from attnref.conformance.recurrence import gates_of
from attnref.conformance.subject import Subject
from attnref.conformance.trial import Raised, Stopped, Trial

_CPU = torch.device("cpu")


class Beside(NamedTuple):
    """The other function, called in float64 with what it takes of the options."""

    about: Subject

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        """Its output."""
        known = {name: each for name, each in options.items() if name in self.about.supports}
        trial = Trial(self.about, torch.float64, _CPU)
        return trial.output(query.clone(), key.clone(), value.clone(), **known)


def read_beside(about: Subject, said: Reading, dtype: torch.dtype, device: torch.device) -> Reading:
    """The axes in which the two answer the same, or the usual ones; and whether they are causal.

    Raises:
        Raised, Stopped: what the function, or the other, does when it is asked.
    """
    assert about.beside is not None
    # What both call the same means the same to both, whatever that is.
    names = {
        option: own
        for option, own in about.overlooked.items()
        if about.beside.overlooked.get(option) == own
    }
    said = replace(said, names={**names, **said.names})
    case = Case.draw(Sizes(), 0)
    case = replace(case, key=torch.nn.functional.normalize(case.key, dim=-1))
    layouts = [name for name, layout in LAYOUTS.items() if layout.tried]
    found: dict[int, Reading] = {}
    usual: Raised | Stopped | None = None
    known = said.layout or about.reading.layout
    own = [known] if known else layouts
    others = [said.layout] if said.layout else layouts
    for causal, layout, other in itertools.product({said.causal: 0, True: 0}, own, others):
        reading = replace(said, layout=layout, beside=other, causal=causal, complete=True)
        trial = Trial(reading.apply(about), dtype, device)
        try:
            found.setdefault(rightness(trial, case), reading)
        except (Raised, Stopped) as error:
            usual = usual or error
            continue
        if 2 in found:
            break
    if not found:
        assert usual is not None
        raise usual
    usual_axes, enough = next(iter(found.values())), 1 if gates_of(about.extras) else 2
    reading = found[max(found)] if max(found) >= enough else usual_axes
    reference = Trial(reading.apply(about).reference.about, torch.float64, _CPU)  # type: ignore[union-attr]
    future = reference.dependence(case).triu(1).any()
    return replace(reading, causal=reading.causal or not bool(future))
