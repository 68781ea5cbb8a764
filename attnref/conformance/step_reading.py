"""How a step is read: what it calls its cache, whether it changes it in place, how its axes lie."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnref.conformance.case import Case, Sizes
from attnref.conformance.draws import Draw
from attnref.conformance.layouts import LAYOUTS, Layout
from attnref.conformance.probes import NEAR, is_softmax
from attnref.conformance.reading import NAME, Reading
from attnref.conformance.recognition import read
from attnref.conformance.step import COUNTING, StepSubject
from attnref.conformance.subject import Subject
from attnref.conformance.trial import Raised, Stopped, Trial
from attnref.text import Text

STEP = Text("a decoding step with a cache")
POSITION = Text("{parameter} is {said}")
IN_PLACE = Text("changes its cache in place")

# Where a head has no axis, neither shared heads nor masks that are wider than the new keys can be
# handed on.
_LOST = ("enable_gqa", "attn_mask")


@dataclass(frozen=True)
class StepReading(Reading):
    """The same of a step, which shares heads by itself; ``parameters`` are its cache.

    ``position`` is the parameter that tells it where the new positions are, in the way of
    ``counting``, None where it is not told.
    """

    parameters: tuple[str, ...] = ("cache",)
    in_place: bool = False
    position: str | None = None
    counting: str | None = None

    def lines(self) -> list[tuple[Text, dict[str, object]]]:
        """What is not as the plainest step has it."""
        lines: list[tuple[Text, dict[str, object]]] = [(STEP, {})]
        if self.parameters != ("cache",):
            lines.append((NAME, {"parameter": ", ".join(self.parameters), "option": "cache"}))
        if self.counting is not None:
            said = COUNTING[self.counting].said
            lines.append((POSITION, {"parameter": self.position, "said": said}))
        if self.in_place:
            lines.append((IN_PLACE, {}))
        return [*lines, *Reading.lines(replace(self, causal=None, shares=False))]

    def apply(self, about: Subject) -> Subject:
        """The step, fed with sequences that have PyTorch's axes."""
        assert isinstance(about, StepSubject)
        layout = self.layout or "bhnd"
        step = replace(
            about.step,
            call=functools.partial(_call, layout=LAYOUTS[layout], extras=about.extras),
            shares=self.shares,
            counting=self.counting,
            along={
                name: draw.axes.index("n")
                for name, draw in about.extras.items()
                if "n" in draw.axes
            },
        )
        found = Reading.apply(replace(self, layout="bhnd", shares=False), about.stepping(step))
        supports = dict.fromkeys([*found.supports, *["enable_gqa"] * self.shares])
        if not LAYOUTS[layout].heads:
            supports = {option: None for option in supports if option not in _LOST}
        return replace(found, supports=tuple(supports), reading=replace(self, layout=layout))


def read_step(
    about: StepSubject, said: Reading, dtype: torch.dtype, device: torch.device
) -> Reading:
    """``said``, and what is recognised of the rest.

    Raises:
        Raised, Stopped: what the step does when it is asked in each way, the usual one first.
    """
    step = about.step
    known = StepReading(
        **vars(replace(said, causal=True)), parameters=step.parameters, position=step.position
    )
    found = _read_counting(about, known, dtype, device)
    trial = Trial(found.apply(about), dtype, device)
    case = Case.draw(Sizes(), 0)
    with torch.no_grad():
        tensors = [trial.cast(x) for x in (case.query, case.key, case.value)]
        assert isinstance(trial.subject, StepSubject)
        given = trial.given_extras(case.query, case.key)
        found = replace(found, in_place=trial.subject.step.works_in_place(tensors, given))
    if "enable_gqa" in about.supports:
        return found
    return replace(found, shares=_shares(about, found, dtype, device))


def _read_counting(
    about: StepSubject, known: StepReading, dtype: torch.dtype, device: torch.device
) -> StepReading:
    """In which way it is told where the new positions are, if it has to be told.

    That which also goes with several at once comes before others that are right one by one.
    """
    ways = [*[None] * about.counts, *(COUNTING if known.position is not None else ())]
    right: list[StepReading] = []
    other: list[StepReading] = []
    usual: Raised | Stopped | None = None
    case = Case.draw(Sizes(), 0)
    for counting in ways:
        step = replace(about.step, counting=counting)
        try:
            found = read(about.stepping(step), replace(known, counting=counting), dtype, device)
            assert isinstance(found, StepReading)
            trial = Trial(found.apply(about), dtype, device)
            case = Case.draw(trial.fit(Sizes()), 0)
            referred = trial.subject.reference is not None
            answers = trial.is_right(case) if referred else is_softmax(trial, case)
            if len(ways) == 1 or (answers and _takes_pieces(trial, case)):
                return found
            (right if answers else other).append(found)
        except (Raised, Stopped) as error:
            usual = usual or error
    if not right and not other:
        assert usual is not None
        raise usual
    return [*right, *other][0]


def _call(
    function: Callable[..., Any],
    *tensors: Tensor,
    layout: Layout,
    extras: Mapping[str, Draw],
    **options: Any,
) -> Any:
    return layout.call(function, *tensors, **layout.arrange_all(options, extras))


def _takes_pieces(trial: Trial, case: Case) -> bool:
    """Whether two pieces give what single positions do."""
    tensors = (case.query, case.key, case.value)
    with torch.no_grad():
        try:
            found = trial.call(*tensors, pieces=(3, 4))
        except (Raised, Stopped):
            return False
        return bool(((found - trial.call(*tensors)).abs() <= NEAR).all())


def _shares(
    about: StepSubject, found: StepReading, dtype: torch.dtype, device: torch.device
) -> bool:
    """Whether two heads of keys serve four, unasked; a single one is broadcast by accident."""
    trial = Trial(replace(found, shares=True).apply(about), dtype, device)
    if not trial.offers("enable_gqa"):
        return False
    case = Case.draw(Sizes(heads=4, key_heads=2), 0)
    try:
        trial.call(case.query, case.key, case.value, enable_gqa=True)
    except (Raised, Stopped):
        return False
    return True
