"""Under a window a query sees the keys near to it; how many can be counted in two ways."""

import torch
from torch import Tensor

from attnref.conformance.case import Case, Sizes
from attnref.conformance.properties.causal import all_equal, seen_keys, strange_row
from attnref.conformance.property import OF_CAUSALITY, OF_MASKS, rule
from attnref.conformance.trial import NOTHING_SUCH, Raised, Stopped, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

BESIDES = Text("window={window} counts the keys besides its own: a query sees {window} + 1 keys.")
EACH_SIDE = Text(
    "window={window} counts the keys on either side of its own: a query sees 2 · {window} + 1 keys."
)
IGNORED = Text("window={window} is accepted but ignored: query {i} sees the keys {keys}.")
OTHER = Text(
    "With window={window} query {i} sees the keys {keys}, expected {window} keys of which its "
    "own is the last, or the middle one."
)
CAUSAL = Text(
    "With window={window} and is_causal query {i} sees the keys {keys}: it must see those that "
    "both allow."
)

DROPPED = Text(
    "With n = {n}, m = {m} and window={window} query {i} sees the keys {keys}: the window is "
    "dropped there."
)
DROPPED_PAST = Text(
    "With n = {n}, m = {m} and window={window} query {i} sees the keys {keys}, all of its past: "
    "the window is dropped there."
)
LOCAL = Text(
    "With n = {n}, m = {m} and window={window} query {i} sees the keys {keys}: the window "
    "counts from the first query of the call, though the causal mask does not. Count from i + m - "
    "n."
)
ODD_TAIL = Text(
    "With n = {n}, m = {m} and window={window} query {i} sees the keys {keys}, expected those "
    "that it sees among as many queries as keys."
)
NOT_NONE = Text(
    "{name}={window} is taken for a window, in which no key is left; in configurations it means "
    "that there is none. Treat it as None, or raise an error."
)
SEES_BEYOND = Text(
    "Its window is {window} by default, and one position at a time, or by itself, query {i} "
    "sees key {first} all the same: the window is dropped, or counted from the first query of the "
    "call."
)
NOTHING_LEFT = Text(
    "{name}={window} leaves no key in sight; elsewhere it means that there is no window."
)


def ways_to_count(n: int, width: int) -> tuple[Tensor, ...]:
    """What a window lets be seen, ``(n, n)``: its own key is the last, or the middle one of them.

    Or the count is of those besides its own, or of those on each side.
    """
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return (
        (j <= i) & (j > i - width),
        (j - i).abs() <= width // 2,
        (j <= i) & (j >= i - width),
        (j - i).abs() <= width,
    )


def causality_of(trial: Trial, seen: Tensor, width: int) -> dict[str, bool]:
    """The flag that a window needs if it hides only the far past, and is_causal the future.

    A window of two numbers says itself how much of the future it hides.
    """
    n = seen.shape[-1]
    i, j = torch.arange(n)[:, None], torch.arange(n)
    alone = all_equal(seen, j > i - width) or all_equal(seen, j >= i - width)
    asked = alone and not trial.subject.reading.pair and trial.offers("is_causal")
    return {"is_causal": True} if asked else {}


@rule(
    statement=Text("A window counts the keys that a query sees, its own included."),
    formula=r"i - W < j \le i",
    page="foundations/masks",
    sizes=Sizes(batch=1, heads=2, n=11),
    needs=("window",),
    follows=(*OF_MASKS, *OF_CAUSALITY),
    convention="window",
    choices={None: "inclusive", BESIDES: "besides", EACH_SIDE: "each-side"},
)
def window_width(trial: Trial, case: Case) -> Finding | None:
    n = case.query.shape[-2]
    width = 3  # odd, for those that put its own key in the middle
    if n <= width:
        return None  # then nothing is out of reach
    weights = trial.weights(case.query, case.key, window=width)
    flag = causality_of(trial, seen_keys(weights), width)
    if flag:
        weights = trial.weights(case.query, case.key, window=width, **flag)
    seen = seen_keys(weights)
    last, middle, *others = ways_to_count(n, width)
    i, j = torch.arange(n)[:, None], torch.arange(n)
    ways: dict[Text | None, Tensor] = {
        None: middle if all_equal(seen, middle) else last,
        **dict(zip((BESIDES, EACH_SIDE), others, strict=True)),
    }
    text = next((text for text, way in ways.items() if all_equal(seen, way)), OTHER)
    if text is OTHER:
        ignored = all_equal(seen, torch.ones(n, n, dtype=torch.bool))
        wrong = IGNORED if ignored or all_equal(seen, j <= i) else OTHER
        return strange_row(trial, weights, wrong, (last, middle), window=width, **flag)
    if trial.offers("is_causal"):
        both = trial.weights(case.query, case.key, window=width, is_causal=True)
        allowed = ways[text] & (j <= i)
        if not all_equal(seen_keys(both), allowed):
            return strange_row(trial, both, CAUSAL, (allowed,), window=width)
    return None if text is None else Finding(Verdict.CONVENTION, text, {"window": width})


@rule(
    statement=Text("A window holds for a tail of queries, for one query, and where it is none."),
    formula=r"i + m - n - W < j \le i + m - n",
    page="foundations/masks",
    sizes=Sizes(batch=1, heads=2, n=11),
    needs=("window",),
    asked_of=("function",),
    follows=(*OF_MASKS, "window_width"),
)
def window_lengths(trial: Trial, case: Case) -> Finding | None:
    square = seen_keys(trial.weights(case.query, case.key, window=_WIDTH))
    flag = causality_of(trial, square, _WIDTH)
    return _tails(trial, case, flag) or _neutral(trial, case, flag)


_WIDTH = 3


def _tails(trial: Trial, case: Case, flag: dict[str, bool]) -> Finding | None:
    """Of fewer queries than keys: all ways to count, from where they begin or end together."""
    m, width = case.key.shape[-2], _WIDTH
    square = seen_keys(trial.weights(case.query, case.key, window=width, **flag))
    counts = [way for way in range(4) if all_equal(square, ways_to_count(m, width)[way])]
    if not counts:
        return None  # `window_width` tells of it
    for n in (4, 1):
        query = case.query[..., -n:, :]
        try:
            trial.call(query, case.key, case.value)
            weights = trial.weights(query, case.key, window=width, **flag)
        except Raised:
            return None  # a refusal is no silence
        seen = seen_keys(weights)
        whole = ways_to_count(m, width)[counts[0]]
        tail = whole[-n:]
        past = torch.arange(m) <= torch.arange(m - n, m)[:, None]
        # Both may begin together, as with is_causal, of which `alignment` tells.
        if all_equal(seen, whole[:n]):
            return None
        ways: dict[Text | None, Tensor] = {
            None: tail,
            DROPPED: torch.ones_like(tail),
            DROPPED_PAST: past,
            LOCAL: past & (torch.arange(m) > torch.arange(n)[:, None] - width),
        }
        text = next((text for text, way in ways.items() if all_equal(seen, way)), ODD_TAIL)
        if text is not None:
            return strange_row(trial, weights, text, (tail,), window=width, n=n, m=m, **flag)
    return None


def _neutral(trial: Trial, case: Case, flag: dict[str, bool]) -> Finding | None:
    """A window of 0 is what configurations have for none, and a size of -1 what kernels have.

    Or 0 sees itself, or each is an error.
    """
    plain = trial.weights(case.query, case.key, **flag)
    past = plain.tril() / plain.tril().sum(-1, keepdim=True)
    name = trial.subject.reading.names.get("window", "window")
    for window in (0, -1) if name == "window_size" and not trial.subject.reading.pair else (0,):
        try:
            weights = trial.weights(case.query, case.key, window=window, **flag)
        except (Raised, Stopped):
            continue
        if any(bool(((weights - each).abs() <= 1e-4).all()) for each in (plain, past)):
            continue
        if bool((weights.nan_to_num(0.0).diagonal(dim1=-2, dim2=-1) > 0).all()):
            continue
        failure = trial.failure(NOT_NONE, window=window, name=name)
        if "sliding" in name and window == 0:  # what configurations have
            return failure
        return Finding(Verdict.CONVENTION, NOTHING_LEFT, failure.values)
    return None


@rule(
    statement=Text("A window that is given by default hides what lies beyond it."),
    formula=r"j \le i - W \implies p_{ij} = 0",
    page="foundations/masks",
    sizes=Sizes(batch=1, heads=1),
    follows=("shape", "determinism", "row_sums"),
)
def window_default(trial: Trial, case: Case) -> Finding | None:
    width, window = trial.subject.default_window(), trial.subject.reading.formula.window
    if not (trial.subject.always_causal or trial.offers("is_causal")):
        return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH)  # across sequences it may mean nothing
    if width is None or window is not None or width > _LONGEST:
        return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH) if width is None else None
    n = width + 3
    far = Case.draw(trial.fit(Sizes(batch=1, heads=1, n=n)), case.seed)
    for options in [{}, {"is_causal": True}][: 1 + trial.offers("is_causal")]:
        value = far.value.clone()
        value[..., 0, :] += 64.0
        try:
            before = trial.call(far.query, far.key, far.value, **options)
            moved = (trial.call(far.query, far.key, value, **options) != before).any(-1)[0, 0]
        except Raised:
            continue
        if not bool(moved[-1]):
            return None
    return trial.failure(SEES_BEYOND, window=width, i=n - 1, first=0)


_LONGEST = 4096
