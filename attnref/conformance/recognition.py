"""Finds how a function is read: its names of options, its axes, what it cannot switch off.

Each reading is tried on one small call, and counts when the answer is the formula's, up to rounding
or up to the factor of the scores. So a wrong function is never read as a right one of another kind.
What is not recognised stays as PyTorch has it, and all of it can be said instead.
"""

import contextlib
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace

import torch

from attnref.conformance import libraries
from attnref.conformance.axes import found_axes
from attnref.conformance.beside import read_beside
from attnref.conformance.case import Case, Sizes
from attnref.conformance.layouts import LAYOUTS
from attnref.conformance.meanings import FORMS, MEANINGS
from attnref.conformance.own import (
    has_a_sink,
    has_a_window,
    holds_so_many,
    is_odd,
    other_attention,
    own_average,
    own_difference,
    own_factor,
    own_formula,
    own_recurrence,
    own_window,
)
from attnref.conformance.probes import (
    NEAR,
    VALUES,
    ignores,
    is_softmax,
    obeys,
    rightness,
    takes,
    value_of,
)
from attnref.conformance.properties.masks import adds_floats, some_bias, some_mask, yes_or_no
from attnref.conformance.reading import Fits, Reading
from attnref.conformance.recurrence import Recurrence, explain, gates_of, recur
from attnref.conformance.required import NOTHING
from attnref.conformance.signatures import OF_KEYS
from attnref.conformance.step import StepSubject
from attnref.conformance.subject import Subject
from attnref.conformance.trial import Raised, Stopped, Trial
from attnref.text import Text

_SIZES = Sizes()
# What kernels are made for, where they are not made for all: a length's factor, and a width. The
# widths whose root is exact come first.
_FITS = tuple(Fits(step, width) for width in (64, 16, 128, 32) for step in (16, 64, 128))
# It may be an approximation of attention, or something else altogether.
_OTHER_ATTENTION = Text(
    " It does answer lengths that are multiples of {step} and vectors of {width} numbers, but "
    "not with averages by exponentials of the scores. If it is an approximation: --approximate."
)
# Their names mean nothing else, so that one that does not obey is wrong.
_MEANT = ("sink", "softcap")
_UNSAID = Text(" Parameters without a default value were given None: {names}.")


def read(about: Subject, said: Reading, dtype: torch.dtype, device: torch.device) -> Reading:
    """``said``, and what is recognised of the rest.

    Raises:
        Raised, Stopped: what the function does when it is asked in each way, the usual one first.
    """
    if about.beside is not None:
        return read_beside(about, said, dtype, device)
    optional = about.extras.keys() <= about.defaults.keys()
    if about.extras and optional:  # it may do without them
        plain = replace(said, drawn=False)
        with contextlib.suppress(Raised, Stopped):
            found = _read_within(about, plain, dtype, device)
            if is_softmax(Trial(found.apply(about), dtype, device), Case.draw(_SIZES, 0)):
                return found
    try:
        return _read_within(about, said, dtype, device)
    except Raised as raised:
        usual = raised
    for fits in _FITS:
        case = Case.draw(_SIZES.fit(*fits), 0)
        try:
            found = _read(about, replace(said, fits=fits), case, dtype, device)
            known = said.approximate or is_softmax(Trial(found.apply(about), dtype, device), case)
        except Raised:
            continue
        if known:
            return found
        usual.hint = _OTHER_ATTENTION.fill(fits._asdict())
        break
    unsaid = [name for name, given in about.given.items() if given == NOTHING]
    if unsaid:
        said_too = _UNSAID.fill({"names": ", ".join(unsaid)})
        usual.hint = Text.join("", (usual.hint, said_too))
    raise usual


def _read_within(
    about: Subject, said: Reading, dtype: torch.dtype, device: torch.device
) -> Reading:
    """At the usual length, or where its own window hides nothing yet."""
    usual = _read(about, said, Case.draw(_SIZES, 0), dtype, device)
    if said.approximate or not (has_a_window(about.function) or holds_so_many(about)):
        return usual
    if is_softmax(Trial(usual.apply(about), dtype, device), Case.draw(_SIZES, 0)):
        window = own_window(about, Trial(usual.apply(about), dtype, device))
        return replace(usual, formula=usual.formula._replace(window=window))
    for n in range(_SIZES.n - 1, 1, -1):
        case = Case.draw(replace(_SIZES, n=n), 0)
        found = _read(about, said, case, dtype, device)
        trial = Trial(found.apply(about), dtype, device)
        window = own_window(about, trial)
        if window is not None and n in window and is_softmax(trial, case):
            return replace(found, formula=found.formula._replace(window=window))
    return usual


def _read(
    about: Subject, said: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    reading = _answering(about, said, case, dtype, device)
    for option, parameter in about.overlooked.items():
        if option in reading.names:
            continue
        for tried in _name_option(reading, option, parameter):
            if obeys(Trial(tried.apply(about), dtype, device), case, option):
                reading = tried
                break
        else:
            if parameter in OF_KEYS:
                reading = _read_padding(about, reading, parameter, case, dtype, device)
                continue
            if option not in ("attn_mask", *VALUES):
                continue
            plain = replace(reading, names={**reading.names, option: parameter})
            trial = Trial(plain.apply(about), dtype, device)
            meant = option in _MEANT and takes(trial, case, {option: value_of(option, case)})
            if meant or ignores(trial, case, option):
                reading = plain
    if "attn_mask" in about.supports and reading.means is None:
        reading = _read_form(about, reading, case, dtype, device)
    alone = not reading.approximate and not isinstance(about, StepSubject)  # which asks it itself
    if alone and "enable_gqa" not in about.supports:
        reading = _read_sharing(about, reading, dtype, device)
    if "window" not in about.swallowed and not reading.pair:
        reading = _read_window(about, reading, case, dtype, device)
    reading = _read_numbers(about, reading, case, dtype, device)
    reading = _read_bools(about, reading, case, dtype, device)
    trial = Trial(reading.apply(about), dtype, device)
    ignored = tuple(each for each in about.swallowed if ignores(trial, case, each))
    compiles = not reading.approximate and _compiles(trial)
    reading = replace(reading, ignored=ignored, compiles=compiles, complete=True)
    if reading.approximate:
        return reading
    return _read_own(about, reading, case, dtype, device)


def _read_padding(
    about: Subject,
    said: Reading,
    parameter: str,
    case: Case,
    dtype: torch.dtype,
    device: torch.device,
) -> Reading:
    """A mask of keys, by its name, that hides no keys in any way that is known.

    It is asked in the first way in which allowing all keys changes nothing, and hiding some does.
    """
    n, m = case.query.shape[-2], case.key.shape[-2]
    inputs = (case.query, case.key, case.value)
    every = torch.ones(n, m, dtype=torch.bool)
    hidden = (torch.arange(m) != m // 2).expand(n, m)
    for means, form in itertools.product(("allowed", "forbidden"), ("(b, m)", "(b, 1, 1, m)")):
        names = {**said.names, "attn_mask": parameter}
        tried = replace(said, names=names, means=means, form=form)
        trial = Trial(tried.apply(about), dtype, device)
        try:
            plain = trial.call(*inputs)
            same, other = (trial.call(*inputs, attn_mask=mask) for mask in (every, hidden))
        except (Raised, Stopped):
            continue
        if bool(((same - plain).abs() <= NEAR).all()) and not torch.equal(other, plain):
            return tried
    return said


def _read_own(
    about: Subject, said: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    """What explains its weights, or that it is no softmax attention, in the axes that show it."""
    trial = Trial(said.apply(about), dtype, device)
    if said.formula.factor is None and is_softmax(trial, case):
        if has_a_sink(about, trial, case):
            return replace(said, formula=said.formula._replace(sink=True))
        factor = own_factor(replace(about, reading=replace(about.reading, fits=said.fits)), trial)
        if factor is not None:
            return replace(said, formula=said.formula._replace(factor=factor))
        return said
    layout = LAYOUTS[said.layout or about.reading.layout or "bhnd"]
    others = ("bhnd", "bnhd") if layout.heads and layout.tried else ()
    layouts = dict.fromkeys((said.layout, *others))
    for name, causal in itertools.product(layouts, dict.fromkeys((said.causal, True))):
        tried = replace(said, layout=name, causal=causal)
        formula = own_formula(about, Trial(tried.apply(about), dtype, device), case)
        if formula is not None:
            return replace(tried, formula=formula)
    for name, causal in itertools.product(layouts, dict.fromkeys((said.causal, True))):
        tried = replace(said, layout=name, causal=causal)
        average = own_average(Trial(tried.apply(about), dtype, device), case)
        if average is not None:
            return replace(tried, other=average, average=True)
    for by_name in (False, True):
        for name, causal in itertools.product(layouts, dict.fromkeys((said.causal, True))):
            tried = replace(said, layout=name, causal=causal)
            trial = Trial(tried.apply(about), dtype, device)
            difference = own_difference(about, trial, case, by_name=by_name)
            if difference is not None:
                return replace(tried, law=difference)
    found: dict[int, Reading] = {}
    for name in layouts:
        tried = replace(said, layout=name)
        trial = Trial(tried.apply(about), dtype, device)
        other = other_attention(about, trial, case)
        gates = gates_of(trial.subject.extras)
        if other is None and not gates:
            continue
        recurrence = own_recurrence(trial)
        if recurrence is None and gates and is_odd(trial, case):
            recurrence = Recurrence(gates=gates)
        tried = replace(tried, law=recurrence, causal=True)
        if recurrence is not None and recurrence.gates:
            trial = Trial(tried.apply(about), dtype, device)
            with contextlib.suppress(Raised, Stopped):
                found.setdefault(rightness(trial, trial.draw(_SIZES, 0)), tried)
            found.setdefault(0, tried)
            if 2 in found:
                break
        elif recurrence is not None and _repeats(trial, recurrence):
            return tried
        elif other is not None:
            return replace(tried, law=None, other=other)
    return found[max(found)] if found else said


def _repeats(trial: Trial, recurrence: Recurrence) -> bool:
    """Whether the constants are those of three positions, or a known fault hides them."""
    case = Case.draw(Sizes(batch=1, n=3), 0)
    output = trial.call(case.query, case.key, case.value)
    inputs = recurrence.inputs(case.query, case.key, case.value, {})
    right = recur(*inputs, delta=recurrence.delta)
    near = bool(((output - right).abs() <= NEAR * (1 + right.abs())).all())
    return near or explain(inputs, output, recurrence.delta) is not None


def _read_form(
    about: Subject, said: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    """The shape and kind that its attn_mask wants, where PyTorch's raises an error.

    What is a mask by another name, because somebody says so, may mean anything.
    """
    if "attn_mask" in said.names:
        for tried in _name_option(said, "attn_mask", said.names["attn_mask"]):
            if obeys(Trial(tried.apply(about), dtype, device), case, "attn_mask"):
                return tried
        return said
    n, m = case.query.shape[-2], case.key.shape[-2]
    if takes(Trial(said.apply(about), dtype, device), case, {"attn_mask": some_mask(case, (n, m))}):
        return said  # `mask_polarity` tells what it does with it
    for means, form in itertools.product(("allowed", "ones", "added"), FORMS):
        tried = replace(said, means=means, form=form)
        if obeys(Trial(tried.apply(about), dtype, device), case, "attn_mask"):
            return tried
    return said


def _read_window(
    about: Subject, said: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    """Whether its window is a pair of numbers, for it takes one, and raises for a single number."""
    own = about.overlooked.get("window")
    named = said if own is None else replace(said, names={**said.names, "window": own})
    plain, paired = (
        Trial(each.apply(about), dtype, device) for each in (named, _pair_window(named))
    )
    asked = {"window": 3}
    alone = not takes(plain, case, asked) and takes(paired, case, asked)
    return _pair_window(named) if alone else said


def _pair_window(reading: Reading) -> Reading:
    return replace(reading, pair=True)


def _read_numbers(
    about: Subject, said: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    """Which of its other masks is for numbers to add; the rest is not asked, and told as that."""
    asked = "attn_mask" in about.supports or "attn_mask" in said.names
    for numbers, form in itertools.product(about.masks if asked else (), FORMS):
        tried = replace(said, numbers=numbers, of_numbers=form)
        if said.means != "added" and adds_floats(Trial(tried.apply(about), dtype, device), case):
            rest = tuple(each for each in about.masks if each != numbers)
            return replace(tried, unknown=rest)
    return replace(said, unknown=about.masks)


def _read_bools(
    about: Subject, said: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    """A mask that is not PyTorch's promises nothing of numbers, and is not asked with them then."""
    usual = "attn_mask" not in said.names and said.form in (None, "(n, m)")
    if usual or said.means != "allowed" or said.numbers:
        return said
    trial = Trial(said.apply(about), dtype, device)
    bias = some_bias(trial, case)
    known = not takes(trial, case, {"attn_mask": bias}) or yes_or_no(trial, case)
    return said if known or adds_floats(trial, case) else replace(said, means="bools")


def _read_sharing(
    about: Subject, said: Reading, dtype: torch.dtype, device: torch.device
) -> Reading:
    """Whether heads share keys without a flag, in the usual order or in another."""
    tried = replace(said, shares=True)
    trial = Trial(tried.apply(about), dtype, device)
    case = Case.draw(trial.fit(Sizes(heads=4, key_heads=2)), 0)
    if not trial.offers("enable_gqa") or not takes(trial, case, {"enable_gqa": True}):
        return said
    output = trial.call(case.query, case.key, case.value, enable_gqa=True)
    orders = [(x.repeat_interleave(2, 1), x.repeat(1, 2, 1, 1)) for x in (case.key, case.value)]
    for key, value in itertools.product(*orders):  # those of keys and values may differ, wrongly
        if bool(((output - trial.call(case.query, key, value)).abs() <= NEAR).all()):
            return tried
    return said


def _compiles(trial: Trial) -> bool:
    """Whether a call in a new shape takes far longer than the same call again.

    In two new shapes: on a busy machine, one call may be slow by chance.
    """
    return all(_is_slow_first(trial, Sizes(batch=3, heads=2, n=n)) for n in (6, 7))


def _is_slow_first(trial: Trial, sizes: Sizes) -> bool:
    case = Case.draw(trial.fit(sizes), 0)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        if not takes(trial, case, {}):
            return False
        seconds.append(time.perf_counter() - start)
    return seconds[0] > max(0.2, 10 * seconds[1])


def _answering(
    about: Subject, said: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    """Whose arrays it takes, or answers with, in which axes, and whether it is causal by itself."""
    output = None if about.library else _output(about, case, dtype, device)
    known = about.library if output is None else libraries.library_of(output)
    try:
        return found_axes(about, replace(said, library=known), case, dtype, device)
    except Raised as raised:
        usual = raised
    packages = [] if known else libraries.candidate_libraries(about.function, usual.error)
    for package in packages:
        try:
            return found_axes(about, replace(said, library=package), case, dtype, device)
        except Raised as raised:
            if libraries.is_about_tensors(usual.error):
                usual = raised  # that one is about what it is made for
    if said.fits is None and ("None" in str(usual.error) or about.given):
        for library in (known, *packages):
            found = _read_needs(about, replace(said, library=library), case, dtype, device)
            if found is not None:
                return found
    raise usual


def _read_needs(
    about: Subject, said: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading | None:
    """What it answers with where it gets a factor, or a mask that allows all; None if it does not.

    A mask that allows all says little of its meaning; so it must be obeyed, too.
    """
    first = None
    for tried in _supply_needs(about, said):
        try:
            found = found_axes(about, tried, case, dtype, device)
            trial = Trial(found.apply(about), dtype, device)
            if not is_softmax(trial, case):
                continue
        except (Raised, Stopped):
            continue
        if "attn_mask" not in found.needs or obeys(trial, case, "attn_mask"):
            return found
        first = first or found
    return first


def _supply_needs(about: Subject, said: Reading) -> Iterator[Reading]:
    own = {option: option for option in about.supports if option not in about.swallowed}
    own = {**about.overlooked, **own}
    for needs in (("scale",), ("attn_mask",), ("scale", "attn_mask")):
        if not all(option in own for option in needs):
            continue
        names = {option: own[option] for option in needs if own[option] != option}
        tried = replace(said, names={**names, **said.names}, needs=needs)
        if "attn_mask" not in needs:
            yield tried
            continue
        for means, form in itertools.product(MEANINGS, FORMS):
            yield replace(tried, means=said.means or means, form=form)


def _output(about: Subject, case: Case, dtype: torch.dtype, device: torch.device) -> object:
    """Whatever it returns for tensors, None where it raises."""
    trial = Trial(about, dtype, device)
    given = [trial.cast(x) for x in (case.query, case.key, case.value)]
    try:
        with torch.no_grad():
            output = trial.call_raw(*given)
    except Raised:
        return None
    return output[0] if isinstance(output, tuple | list) and output else output


def _name_option(reading: Reading, option: str, parameter: str) -> Iterator[Reading]:
    names = {**reading.names, option: parameter}
    if option == "window":
        yield replace(reading, names=names)
        yield _pair_window(replace(reading, names=names))
    elif option != "attn_mask" or reading.means is not None:
        yield replace(reading, names=names)
    else:
        for means, form in itertools.product(MEANINGS, FORMS):
            yield replace(reading, names=names, means=means, form=form)
