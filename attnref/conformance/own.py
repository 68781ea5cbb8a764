"""What a function has of its own, so that it is not taken for a wrong one of the usual formula.

A window that hides old keys by default, a factor that is not 1/sqrt(d_k), a sink, a bias by
distance, a rotation by position: what is recognised is part of the formula that it is judged by.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from attnref.conformance import difference, recurrence
from attnref.conformance.case import Case, Sizes
from attnref.conformance.difference import Difference
from attnref.conformance.formula import SERIES, Factor, Formula, Rotary, Window, distance
from attnref.conformance.properties.causal import seen_keys
from attnref.conformance.properties.scaling import (
    NARROW,
    WIDE,
    centre,
    effective_scale,
    named_factors,
)
from attnref.conformance.recurrence import Recurrence, Unclear, gates_of
from attnref.conformance.signatures import SYNONYMS, signature_of, unwrap
from attnref.conformance.step import StepSubject
from attnref.conformance.subject import Subject
from attnref.conformance.trial import Raised, Stopped, Trial
from attnref.text import Text

RECURRENCE = Text("a recurrence, whose weights may be negative and depend on the keys in between")

NORMALISED = Text("its queries and keys are normalised, so that the scores are cosines")
LINEAR = Text("linear attention: the weights are products of features, divided by their sum")

# What people call a sink that joins the sum of the exponentials.
_SINKS = ("sink", "off_by_one", "softmax_one", "softmax1", "softmax_1")
_WINDOWS = ("window", "sliding", "evict", "stream", "recent", "chunk")
_LONG = 133  # the longest sequence that is compared with the formula in full,
_LONGER = 1100  # and what is compared in a single row, but for the longest ones
_MOST_KEYS = 5003
_SAME = 1e-2  # of two numbers that are one, up to rounding
_CLOSE = 5e-3  # of two factors
_MOST = 4.0  # YaRN multiplies 1/sqrt(d_k) by (0.1 ln s + 1)^2, 2.2 for s = 128


def has_a_window(function: Callable[..., Any]) -> bool:
    """Whether it speaks of a window that it has by default."""
    return says(function, *_WINDOWS)


def holds_so_many(about: Subject) -> bool:
    """Whether what makes a step's cache is not told how much it is to hold, so that it forgets."""
    factory = about.step.factory if isinstance(about, StepSubject) else None
    return factory is not None and "max_len" not in inspect.signature(factory).parameters


def says(function: Callable[..., Any], *words: str) -> bool:
    """Whether its name, its parameters or its code speak of one of these.

    A parameter that is None by default does not count: without it there is no such thing.

    Examples:
        >>> def attention(query, key, value, sliding_window=4): ...
        >>> says(attention, "window"), says(attention, "sink")
        (True, False)
    """
    signature = signature_of(function)
    parameters = [] if signature is None else list(signature.parameters.values())
    if any(each.default is None and _contains_any(each.name, words) for each in parameters):
        return False
    return any(
        _contains_any(name, words) for name in [*(p.name for p in parameters), *_names(function)]
    )


def _contains_any(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name.lower() for word in words)


def _names(function: Callable[..., Any]) -> Iterator[str]:
    if isinstance(function, functools.partial):
        yield from function.keywords
    plain = unwrap(function)
    if isinstance(plain, torch.nn.Module):
        yield from (name for name in vars(plain) if not name.startswith("_"))
        yield from (name for name, _ in plain.named_parameters())
        yield type(plain).__name__
        plain = plain.forward
    yield getattr(plain, "__name__", type(plain).__name__)
    code = getattr(inspect.unwrap(plain), "__code__", None)
    if isinstance(code, CodeType):
        yield from (*code.co_names, *code.co_varnames, *code.co_freevars)
        for constant in code.co_consts:  # names of arguments of the calls in it
            if isinstance(constant, tuple):
                yield from (each for each in constant if isinstance(each, str))


def own_window(about: Subject, trial: Trial) -> Window | None:
    """The window that hides keys by default; None where none is seen to hide any.

    A key is followed through the values: the outputs that it moves are those that see it. What
    has gates forgets, and hides nothing.
    """
    if gates_of(about.extras):
        return None
    long = Sizes(batch=1, heads=1, n=_length(about))
    kept = 0
    seen = _seeing_three(trial, long, kept) or _seeing_three(trial, Sizes(), kept)
    if seen is not None and _is_chunk(*seen[:2]):
        back = int(seen[0].sum())
        next_one = _seeing_three(trial, long, back)
        if next_one is not None and _is_chunk(next_one[0][back:], next_one[1][back:]):
            return Window(back, 1, chunked=True)
    while (
        seen is not None and bool(seen[0][kept:].all()) and kept < _KEPT
    ):  # the first keys may stay
        kept += 1
        seen = _seeing_three(trial, long, kept)
    if seen is None or not _is_band(*(each[kept:] for each in seen[:2])):
        return None
    first, _, last = (each[kept:] for each in seen)
    if not bool(first.any() and last.any()):
        return None
    back, ahead = int(first.sum()), int(last.sum())  # ahead is one where it is causal
    return Window(back, ahead if ahead < len(first) else None, kept)


_KEPT = 9  # first keys that may stay in sight, so many less one


def _seeing_three(trial: Trial, sizes: Sizes, at: int) -> tuple[Tensor, Tensor, Tensor] | None:
    """Which queries see a key, the next one and the last; None if it refuses the call."""
    case = Case.draw(sizes, 0)
    try:
        plain = trial.call(case.query, case.key, case.value)
        first, second, last = (_seeing(trial, case, plain, j) for j in (at, at + 1, sizes.n - 1))
    except (Raised, Stopped):
        return None
    return first, second, last


def _is_chunk(first: Tensor, second: Tensor) -> bool:
    """Whether the first positions alone see the first key and the next, up to the same one."""
    back = int(first.sum())
    together = bool(first[:back].all()) and bool(second[1:back].all() and not second[0])
    return 1 < back < len(first) and together and int(second.sum()) == back - 1


def _is_band(first: Tensor, second: Tensor) -> bool:
    """Whether the keys that a query sees move with it, and not all see all."""
    n, back = len(first), int(first.sum())  # how many see the first key: from its own on
    if not bool(first[:back].all()) or back == n or not bool(second[1 : back + 1].all()):
        return False
    return not bool(second[back + 1 :].any())


def _length(about: Subject) -> int:
    """Beyond its window, if its signature tells how wide that is; a step takes its time."""
    if isinstance(about, StepSubject):
        return _LONG
    width = about.default_window()
    return _LONGER if width is None else min(max(_LONG, width + 3), _MOST_KEYS)


def _seeing(trial: Trial, case: Case, plain: Tensor, j: int) -> Tensor:
    """The queries that see key j, ``(n,)``."""
    value = case.value.clone()
    value[..., j, :] += 64.0
    return (trial.call(case.query, case.key, value) != plain).any(-1)[0, 0]


def own_factor(about: Subject, trial: Trial) -> Factor | None:
    """A factor that is fixed, or a multiple of 1/sqrt(d_k), and no known mistake.

    Where scale=None is offered, it stands for 1/sqrt(d_k), and another factor is wrong.
    """
    own = next((p for p in ("scale", *SYNONYMS["scale"]) if p in (about.parameters or ())), None)
    default = about.defaults.get(own) if own is not None else None
    if (own is not None and not isinstance(default, float | int)) or about.reading.fits is not None:
        return None
    declared = float(default) if isinstance(default, float | int) else None
    close = _CLOSE if trial.dtype in (torch.float32, torch.float64) else 4 * _CLOSE
    try:
        wide, narrow = (
            effective_scale(trial, Case.draw(trial.fit(sizes), 0)) for sizes in (WIDE, NARROW)
        )
    except (Raised, Stopped):
        return None
    if not (wide.good and narrow.good and wide.factor > 0 and narrow.factor > 0):
        return None

    def is_same(one: float, other: float) -> bool:
        return abs(one / other - 1) < close

    names = [named_factors(sizes) for sizes in (WIDE, NARROW)]
    known = any(
        is_same(wide.factor, names[0][name]) and is_same(narrow.factor, names[1][name])
        for name in names[0]
    )
    if known and declared is None:
        return None
    times = [fit.factor * sizes.d_k**0.5 for fit, sizes in ((wide, WIDE), (narrow, NARROW))]
    if is_same(wide.factor, narrow.factor):
        return Factor(wide.factor if declared is None else declared, fixed=True)
    usual = is_same(times[0], 1.0)
    if is_same(*times) and not usual and (declared is not None or 1.0 < times[0] < _MOST):
        return Factor(times[0], fixed=False)
    return None


def other_attention(about: Subject, trial: Trial, case: Case) -> Text | None:
    """What it is instead of softmax attention, None where it is that, or something wrong."""
    try:
        return RECURRENCE if _recurs(trial, case) else None
    except (Raised, Stopped):
        return None


def own_average(trial: Trial, case: Case) -> Text | None:
    """The kind of average that it takes, if it is known and no softmax of products."""
    try:
        weights, seen = trial.weights(case.query, case.key), trial.visible_pairs(case)
        query, key = trial.to_double(case.query), trial.to_double(case.key)
        unit = [torch.nn.functional.normalize(x, dim=-1) for x in (query, key)]
        cosines = centre(unit[0] @ unit[1].mT, seen)
        if bool((weights > 0).eq(seen).all()):
            logs = centre(weights.masked_fill(~seen, 1.0).log(), seen)
            factor = (logs * cosines).sum() / (cosines * cosines).sum()
            if factor > 0 and bool(((logs - factor * cosines).abs() <= _SAME * factor).all()):
                return NORMALISED
        for features in _FEATURES:
            products = (features(query) @ features(key).mT) * seen
            right = products / products.sum(-1, keepdim=True)
            if bool(((weights - right).abs() <= _SAME**2).all()):
                return LINEAR
    except (Raised, Stopped):
        pass
    return None


_FEATURES: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: torch.nn.functional.elu(x) + 1,
    lambda x: x.relu() + 1e-3,
    lambda x: x.relu() + 1e-6,
    lambda x: x.softmax(-1),
    lambda x: x.exp(),
)


def own_formula(about: Subject, trial: Trial, case: Case) -> Formula | None:
    """What explains its weights, where they are not those of plain softmax attention.

    A window that it has by default is known already, and so is that what it sees is causal.
    """
    known = trial.subject.reading.formula
    try:
        weights = trial.weights(case.query, case.key)
        if not weights.isfinite().all():
            return None
        seen = trial.visible_pairs(case)
        n = len(seen)
        if bool(((weights > 0) != seen).any()) or not _is_close(
            weights.sum(-1), seen.any(-1) * 1.0
        ):
            return None
        for turn in (None, *_ROTATIONS):
            query, key = (x if turn is None else turn(x) for x in (case.query, case.key))
            dots = centre(query @ key.mT, seen)
            logs = centre(weights.masked_fill(~seen, 1.0).log(), seen)
            apart = centre(distance(n, n).expand_as(logs), seen)
            factor, slopes, left = _fit(logs, dots, apart)
            if left > _SAME or not _is_close(factor, torch.tensor(case.query.shape[-1] ** -0.5)):
                continue
            if not slopes.abs().max() > _SAME**2:
                return None if turn is None else known._replace(turn=turn)
            for name, (_, series) in SERIES.items():
                if turn is None and _is_close(slopes, -series(len(slopes))):
                    return known._replace(slopes=name)
        if _is_biased(trial, case, weights, seen):
            return known._replace(biased=True)
    except (Raised, Stopped):
        pass
    return None


_ROTATIONS = tuple(
    Rotary(half, part, over)
    for part, over in ((1.0, False), (0.5, False), (0.25, False), (0.5, True), (0.25, True))
    for half in (True, False)
)


def _is_biased(trial: Trial, case: Case, weights: Tensor, seen: Tensor) -> bool:
    """Whether its scores are the products and what queries of zeros see, by distance alone."""
    zeros = torch.zeros_like(case.query)
    bias = trial.weights(zeros, zeros).masked_fill(~seen, 1.0).log()
    steps = (bias[..., 1:] - bias[..., :-1]).masked_fill(~(seen[:, 1:] & seen[:, :-1]), 0.0)
    n = len(seen)
    for apart in range(1 - n, n - 1):
        along = steps.diagonal(apart, -2, -1)
        there = (seen[:, 1:] & seen[:, :-1]).diagonal(apart)
        if bool(there.any()) and not _is_close(
            along[..., there], along[..., there][..., :1].expand_as(along[..., there])
        ):
            return False
    dots = trial.to_double(case.query) @ trial.to_double(case.key).mT
    scores = dots * case.query.shape[-1] ** -0.5 + bias
    right = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return bool(((weights - right).abs() <= _SAME).all()) and bool(bias[..., :-1, :].std() > _SAME)


def _fit(logs: Tensor, dots: Tensor, apart: Tensor) -> tuple[Tensor, Tensor, float]:
    """The factor of the products and that of the distance for each head, and what is left over."""
    heads = logs.shape[1]
    factors = torch.zeros(heads, 2, dtype=torch.float64)
    left = 0.0
    for head in range(heads):
        parts = torch.stack([dots[:, head].flatten(), apart[:, head].flatten()], -1)
        wanted = logs[:, head].flatten()
        factors[head] = torch.linalg.lstsq(parts, wanted[:, None]).solution[:, 0]
        rest = (parts @ factors[head] - wanted).abs().mean()
        left = max(left, float(rest / wanted.abs().mean().clamp(min=1e-9)))
    return factors[:, 0], factors[:, 1], left


def has_a_sink(about: Subject, trial: Trial, case: Case) -> bool:
    """Whether the same number, for each head, joins the sum of the exponentials of each row."""
    if not says(about.function, *_SINKS):
        return False
    found = []
    for n in (case.query.shape[-2], max(1, case.query.shape[-2] - 2)):
        query, key, value = (x[..., :n, :] for x in (case.query, case.key, case.value))
        part = Case(query, key, value, case.seed)
        fit = effective_scale(trial, part)
        if not fit.good or not _is_close(
            torch.tensor(fit.factor), torch.tensor(query.shape[-1] ** -0.5)
        ):
            return False
        seen = trial.visible_pairs(part)
        weights = trial.weights(part.query, part.key)
        powers = (
            fit.factor * trial.to_double(part.query) @ trial.to_double(part.key).mT
        ).exp() * seen
        total = powers.sum(-1) / weights.sum(-1)
        found.append((total - powers.sum(-1)).transpose(0, 1).flatten(1))  # (heads, rows)
    rest = torch.cat(found, -1)
    mean = rest.mean(-1, keepdim=True)
    return bool((rest > _SAME**2).all() and ((rest - mean).abs() <= 2 * _SAME * mean).all())


def _recurs(trial: Trial, case: Case) -> bool:
    """Whether it is odd in the query, causal, and no sum of values by the products alone.

    Weights of a softmax are not odd, and those that lack a softmax alone are the products.
    """
    query, key, value = case.query, case.key, case.value
    if not is_odd(trial, case):
        return False
    plain = trial.call(query, key, value)
    n = query.shape[-2]
    last = (torch.arange(n) == n - 1)[:, None]
    later = trial.call(query, torch.where(last, -key, key), torch.where(last, 1 - value, value))
    if not _is_close(later[..., :-1, :], plain[..., :-1, :]):
        return False
    weights = trial.weights(query, key)
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    dots = (trial.to_double(query) @ trial.to_double(key).mT).masked_fill(~seen, 0.0)
    if not bool((seen_keys(weights) == seen).all()):
        return False
    slope = (weights * dots).sum() / (dots * dots).sum()
    return not _is_close(weights, slope * dots)


def is_odd(trial: Trial, case: Case) -> bool:
    """Whether the opposite query gets the opposite, as without exponentials."""
    plain = trial.call(case.query, case.key, case.value)
    if not plain.isfinite().all() or not bool((plain.abs() > _SAME).any()):
        return False
    return _is_close(trial.call(-case.query, case.key, case.value), -plain)


def _is_close(one: Tensor, other: Tensor) -> bool:
    return bool(((one - other).abs() <= _SAME * (1e-2 + other.abs())).all())


def own_recurrence(trial: Trial) -> Recurrence | None:
    """The recurrence that its answers show; None where they show none."""
    try:
        return trial.measure(recurrence.measure)
    except (Raised, Stopped, Unclear):
        return None


def own_difference(about: Subject, trial: Trial, case: Case, *, by_name: bool) -> Difference | None:
    """Differential attention, as its answers show, or as its name says and its rows have one sum.

    Which sum that is, each head says by itself.
    """
    if case.query.shape[-1] % 2 or (by_name and not says(about.function, "diff", "lambd", "lam_")):
        return None
    try:
        found = trial.measure(difference.measure, *case.query.shape[1::2])
        if not bool((found.share.abs() > _SAME).any()):
            return None
        if by_name:
            sums = trial.weights(case.query, case.key).sum(-1)
            known = _is_close(sums, (1 - found.share)[:, None].expand_as(sums))
        else:
            given: dict[str, Any] = {"is_causal": True} if trial.subject.always_causal else {}
            inputs = (case.query, case.key, case.value)
            known = _is_close(trial.call(*inputs), found(*inputs, **given))
    except (Raised, Stopped):
        return None
    return found if known else None
