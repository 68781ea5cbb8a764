"""A function beside which another is judged, whatever the two compute."""

import itertools
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref.conformance.case import Case, Sizes
from attnref.conformance.layouts import LAYOUTS
from attnref.conformance.probes import NEAR
from attnref.conformance.reading import Reading
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
    found: list[Reading] = []
    usual: Raised | Stopped | None = None
    own = [said.layout] if said.layout else [about.layout] if about.layout else layouts
    for layout, other in itertools.product(own, [said.layout] if said.layout else layouts):
        reading = replace(said, layout=layout, beside=other, complete=True)
        trial = Trial(reading.apply(about), dtype, device)
        try:
            output = trial.call(case.query, case.key, case.value)
            right = trial.truth(case.query, case.key, case.value).output
        except (Raised, Stopped) as error:
            usual = usual or error
            continue
        found.append(reading)
        if bool(((output - right).abs() <= NEAR * (1 + right.abs())).all()):
            found = [reading]
            break
    if not found:
        assert usual is not None
        raise usual
    reading = found[0]
    reference = Trial(reading.apply(about).reference.about, torch.float64, _CPU)  # type: ignore[union-attr]
    future = reference.dependence(case).triu(1).any()
    return replace(reading, causal=said.causal or not bool(future))
