"""How a function is read, and how it is asked so: its names of options, its axes, its masks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from attnref.conformance import libraries
from attnref.conformance.difference import Difference
from attnref.conformance.draws import Draw
from attnref.conformance.formula import PLAIN, Formula
from attnref.conformance.layouts import LAYOUTS
from attnref.conformance.libraries import LIBRARIES
from attnref.conformance.meanings import FORMS, MEANINGS, SAME, window_pair
from attnref.conformance.recurrence import Recurrence
from attnref.conformance.required import WIDTH
from attnref.conformance.signatures import rename_options
from attnref.text import Text

if TYPE_CHECKING:
    from attnref.conformance.subject import Subject

LAYOUT = Text("axes {layout}")
NAME = Text("{parameter} is {option}")
MEANS = Text("{parameter} is {option}, {meaning}")
OF_FORM = Text("{parameter} is {option}, {meaning}, {form}")
CUT = Text("only in part, since a call did not return or ended its process")
SHARES = Text("fewer key heads are shared without a flag")
NEEDS = Text("{parameter} is given {value} if none is requested")
ALL = Text("a mask that allows all")
PAIR = Text("{parameter} is {option}, as keys to the left and right")
NOT_ASKED = Text("{parameter} not tested")
CAUSAL = Text("always causal")
SIZED = Text("lengths that are multiples of {step}, vectors of {width}")
IN_HALF = Text("{dtype}, because it takes no float32")
COMPILED = Text("compiled again for other shapes, and given {times} times the limit")
ROUGHLY = Text("approximate")
ARRAYS = Text("arrays of {library}")

_OF_HEADS = ("enable_gqa", "sink", "key_lengths")
COMPILING = 12  # times the limit, for what compiles in between


class Fits(NamedTuple):
    """Lengths that are multiples of ``step``, and vectors of ``width``."""

    step: int
    width: int


@dataclass(frozen=True)
class Reading:
    """What was recognised of a function, or said of it; None where nothing was.

    ``names`` are the function's own for options; ``causal`` says that it cannot be asked without
    causality; ``ignored`` are options that it swallows and does not know, ``library`` is the one
    whose arrays it takes and answers with, if that is not PyTorch. ``fits`` are the only sizes that
    it takes, ``dtype`` is the only one, where it takes no float32, and what ``compiles`` for each
    shape is given more time. ``switch`` is what it is told not to be causal by, where it is unless
    told, and what ``shares`` takes fewer heads of keys without being told. ``needs`` are options
    that it gets in each call, for it does not do without, and ``pair`` says that its window is one
    of numbers. A mask that is ``numbers`` to add goes to that parameter, in the form
    ``of_numbers``; what other masks mean is ``unknown``. One that is ``turned`` was found to answer
    in other axes than it is asked in. ``complete`` leaves nothing to recognise; one that was
    ``cut`` off claims no option that it may swallow. One that is ``approximate`` is asked for its
    error and for what holds of approximations too. One that is not ``drawn`` for does without the
    tensors that it may take, and a ``law`` is what it is compared with; ``beside`` are the axes of
    the function beside it. What it adds to the usual formula is its ``formula``. If no
    formula is known it is ``other``, which says what it is, perhaps an ``average``, and is compared
    with itself alone.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    layout: str | None = None
    means: str | None = None
    form: str | None = None
    causal: bool | None = None
    ignored: tuple[str, ...] = ()
    library: str | None = None
    fits: Fits | None = None
    dtype: str | None = None
    compiles: bool = False
    switch: str | None = None
    shares: bool = False
    needs: tuple[str, ...] = ()
    pair: bool = False
    numbers: str | None = None
    of_numbers: str | None = None
    unknown: tuple[str, ...] = ()
    turned: bool = False
    approximate: bool = False
    complete: bool = False
    cut: bool = False
    formula: Formula = PLAIN
    drawn: bool = True
    law: Recurrence | Difference | None = None
    beside: str | None = None
    other: Text | None = None
    average: bool = False

    def lines(self) -> list[tuple[Text, dict[str, object]]]:
        """What is not as PyTorch has it, in words and what fills their places."""
        lines: list[tuple[Text, dict[str, object]]] = []
        about: dict[str, object]
        if self.layout not in (None, "bhnd"):
            lines.append((LAYOUT, {"layout": LAYOUTS[str(self.layout)].axes}))
        named = dict(self.names)
        if self.means is not None:
            named.setdefault("attn_mask", "attn_mask")
        if self.pair:
            named.setdefault("window", "window")
        for option, parameter in named.items():
            about = {"option": option, "parameter": parameter}
            if option == "attn_mask" and self.means is not None:
                about["meaning"] = MEANINGS[self.means].said
                usual = self.form in (None, "(n, m)")
                lines.append((MEANS if usual else OF_FORM, {**about, "form": self.form}))
            elif option == "window" and self.pair:
                lines.append((PAIR, about))
            else:
                lines.append((NAME, about))
        if self.numbers is not None:
            about = {"option": "attn_mask", "parameter": self.numbers}
            about |= {"meaning": MEANINGS["added"].said, "form": self.of_numbers}
            lines.append((MEANS if self.of_numbers == "(n, m)" else OF_FORM, about))
        lines += [(NOT_ASKED, {"parameter": each}) for each in self.unknown]
        for option in self.needs:
            value = ALL if option == "attn_mask" else WIDTH
            lines.append((NEEDS, {"parameter": self.names.get(option, option), "value": value}))
        lines += [(CAUSAL, {})] if self.causal else []
        lines += [(SHARES, {})] if self.shares else []
        lines += self.formula.lines()
        lines += [self.law.line()] if self.law is not None else []
        lines += [(ROUGHLY, {})] if self.approximate else []
        lines += [(SIZED, self.fits._asdict())] if self.fits else []
        lines += [(IN_HALF, {"dtype": self.dtype})] if self.dtype else []
        lines += [(CUT, {})] if self.cut else []
        if self.library:
            lines.append((ARRAYS, {"library": LIBRARIES[self.library].name}))
        return [*lines, (COMPILED, {"times": COMPILING})] if self.compiles else lines

    @property
    def mask_means(self) -> str:
        """What its mask says; what says no numbers says the same of yes and no."""
        return "allowed" if self.means in (None, "bools") else str(self.means)

    @property
    def same_along(self) -> tuple[int, ...]:
        """The axes, of heads -3 or queries -2, along which its mask says one thing."""
        return SAME.get(self.form or "", ())

    def convert_mask(self, mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Its own mask for PyTorch's."""
        means, form = self.means or "allowed", self.form or "(n, m)"
        if mask.is_floating_point() and self.numbers is not None and self.of_numbers is not None:
            means, form = "added", self.of_numbers
        mask = FORMS[form](mask, (*query.shape[:-1], key.shape[-2]))
        mask = MEANINGS[means].turned(mask)
        # Numbers in place of yes and no come in the dtype of the scores that they are added to.
        return mask.to(query.dtype) if mask.is_floating_point() else mask

    def own_options(
        self, options: Mapping[str, Any], convert: Callable[[Tensor], Tensor]
    ) -> dict[str, Any]:
        """The options as it wants them: its own mask, numbers to add apart, a window as a pair."""
        own = dict(options)
        mask = own.get("attn_mask")
        if isinstance(mask, Tensor):
            own["attn_mask"] = convert(mask)
            if self.numbers and mask.is_floating_point():
                own[self.numbers] = own.pop("attn_mask")
        if self.pair and own.get("window") is not None:
            own["window"] = window_pair(own["window"])
        return own

    def apply(self, about: "Subject") -> "Subject":
        """The function as it is asked: with PyTorch's names, axes and masks."""
        overlooked = {
            option: name for option, name in about.overlooked.items() if option not in self.names
        }
        supports = [name for name in about.supports if name not in self.ignored]
        supports += self.names
        supports += ["is_causal"] if self.causal else []
        supports += ["enable_gqa"] if self.shares else []
        reading = replace(self, layout=self.layout or about.reading.layout)
        layout = LAYOUTS[reading.layout or "bhnd"]
        if not layout.heads:  # heads that share keys have no axis there
            supports = [each for each in supports if each not in _OF_HEADS]
        other = (self.names, self.means, self.causal, self.library, self.switch, self.shares)
        plain = not any((*other, self.needs, self.pair, self.numbers)) and layout is LAYOUTS["bhnd"]
        reference: Any = self.law
        if about.beside is not None:
            shared = {
                option: own
                for option, own in self.names.items()
                if own in (about.beside.parameters or ())
            }
            if self.causal and "is_causal" in about.beside.overlooked:
                shared["is_causal"] = about.beside.overlooked["is_causal"]
            reference = _beside(Reading(shared, layout=self.beside).apply(about.beside))
            known = (*about.beside.supports, *shared)
            supports = [each for each in supports if each in known or each == "is_causal"]
        extras = about.extras if self.drawn else {}
        return replace(
            about,
            function=about.function if plain else _asking(about, reading, extras),
            supports=tuple(dict.fromkeys(supports)),
            reading=reading,
            overlooked=overlooked,
            mask=reading.convert_mask,
            extras=extras,
            reference=reference,
        )


def _beside(other: "Subject") -> Any:
    from attnref.conformance.beside import Beside  # which reads, too

    return Beside(other)


def _asking(about: "Subject", reading: Reading, extras: Mapping[str, Draw]) -> Callable[..., Any]:
    """The function for PyTorch's names, axes and masks."""
    function = rename_options(about.function, reading.names)
    if reading.library:
        function = libraries.calling(reading.library, function)
    layout = LAYOUTS[reading.layout or "bhnd"]
    drops = ["is_causal"] if reading.causal and "is_causal" not in about.supports else []
    drops += ["enable_gqa"] if reading.shares else []

    def attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        options = layout.arrange_all(options, extras)
        if about.paged and layout.axes.startswith("(b, n"):
            options["heads_third"] = True
        if "scale" in reading.needs and options.get("scale") is None:
            options["scale"] = query.shape[-1] ** -0.5
        if "attn_mask" in reading.needs and options.get("attn_mask") is None:
            options["attn_mask"] = query.new_ones(query.shape[-2], key.shape[-2], dtype=torch.bool)
        if reading.switch is not None and "is_causal" not in options:
            options[reading.switch] = False
        options = reading.own_options(options, lambda mask: reading.convert_mask(mask, query, key))
        for option in drops:
            options.pop(option, None)
        return layout.call(function, query, key, value, **options)

    attention.__wrapped__ = about.function  # type: ignore[attr-defined]
    return attention
