"""What a decoding step with a cache must do beside attention; asked of nothing else."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnref.conformance.budget import loss
from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss
from attnref.conformance.properties.causal import seen_keys
from attnref.conformance.property import rule
from attnref.conformance.step import COUNTING, StepSubject
from attnref.conformance.trial import Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

CUT = Text(
    "Fed in pieces of {pieces}, the output at {index} is {got:.6g}; one position at a time it "
    "is {expected:.6g}."
)
CUT_AS = Text(
    "Fed in pieces of {pieces}, the output at {index} is {got:.6g}; one position at a time it "
    "is {expected:.6g}. {how}"
)
TOP_LEFT = Text(
    "Inside a piece query i sees the keys j <= i, as if the cache were empty: top-left. It must "
    "see the keys j <= i + m - n, bottom-right."
)
UNMASKED = Text(
    "Inside a piece each query sees the whole piece, its own future too: a causal mask is missing."
)
ONE_FEWER = Text("Inside a piece the positions are off by one: query i does not see its own key.")
ONE_MORE = Text(
    "Inside a piece the positions are off by one: query i sees key i + 1, in its future."
)
WINDOWED = Text(
    "That is with a window of 3: it must count from each query's own position, in a piece, too."
)
PIECE_ALONE = Text("The keys of a piece are all that its queries see: the cache is not read.")
UNCUT = Text(
    "It takes one position at a time; pieces of {pieces} raise {error}. Nothing is silently wrong."
)
UNFIT = Text(
    "Fed in pieces of {pieces}, more than its window holds, it returns NaN. Nothing is silently "
    "wrong."
)
LOST = Text(
    "Query {i} gives key {j} no weight, though the key was added before it: the cache does not "
    "keep it. Append the new keys and values to those of before."
)
FIRST_ALONE = Text(
    "Query {i}, fed alone, sees key 0 and no other, as if the cache were empty: its causal mask "
    "is aligned top-left. It must see the keys j <= i + m - n, bottom-right; the cache may be "
    "right."
)
NEWEST = Text(
    "Query {i} gives its own key, the newest, no weight. Append it to the cache first, then attend."
)
SHARED_CACHE = Text(
    "Two sequences that are decoded in turn, with a cache each, mix: the output at {index} is "
    "{got:.6g}, alone {expected:.6g}. Something is kept outside the cache, or all get the same "
    "one."
)
CHANGES = Text(
    "A step changes the cache that it is given, so one cache cannot be continued in two ways: "
    "with another step from it the output at {index} is {got:.6g} instead of {expected:.6g}. For "
    "a search with several beams copy it first."
)
ALIASED = Text(
    "The cache keeps the caller's own tensors: once the caller overwrites them, the output at "
    "{index} is {got:.6g} instead of {expected:.6g}. Keep a copy."
)
LONG = Text(
    "At position {position} the output at {index} is {got:.6g}, expected {expected:.6g}, though "
    "short sequences are answered right."
)
FORGETS = Text(
    "At position {position} only the last {kept} of {all} keys count; the first are gone, "
    "without an error. Let the cache grow, or raise an error when it is full; if a window is "
    "meant, give the step a parameter that says so, such as window."
)
FULL = Text("For {n} positions it raises {error}. A full cache that says so is no fault.")
CUT_OFF = Text(
    "Gradients stop at the cache: {name} gets only what its own step says. So do models with a "
    "memory of earlier segments; to train through the steps, do not detach what is kept."
)
WITHOUT = Text("Its outputs have no gradient: a cache is for decoding, where none is needed.")
GRADIENT = Text(
    "Through the steps the gradient of {name} at {index} is {got:.6g}, expected {expected:.6g} "
    "(allowed error {allowed:.1e})."
)

TOGETHER = Text("It is not told where each sample is, so that all are at the same position.")
APART = Text(
    "Where one sample of the batch is {lag} positions behind another, the output of sample "
    "{sample} at {index} is {got:.6g}, expected {expected:.6g}: all are taken to be where one of "
    "them is."
)
_WEIGHTLESS = 1e-6  # of normal queries and keys no key that may be seen weighs less
_CLOSE = 1e-2  # two ways to be wrong that are this close need no telling apart
_PAGE = "foundations/kv-cache"


@rule(
    statement=Text("However a sequence is cut into pieces, each position gets the same output."),
    formula=r"f(Q_{1 \ldots n}) = [f(Q_{1 \ldots a}); f(Q_{a+1 \ldots b}); \ldots]",
    page=_PAGE,
    follows=("shape", "determinism", "past_kept", "sequences_apart", "row_sums", "window_default"),
    holds_of="any",
    asked_of=("step",),
)
def pieces(trial: Trial, case: Case) -> Finding | None:
    cuts = _cuts(case.query.shape[-2])
    return (
        _check_cuts(trial, case, cuts)
        or _check_beyond(trial, case)
        or (_check_cuts(trial, case, cuts, window=_NARROW) if trial.offers("window") else None)
    )


def _check_beyond(trial: Trial, case: Case) -> Finding | None:
    """Pieces that cross the border of its own window."""
    window = trial.subject.reading.formula.window
    if window is None or window.back > _LONG:
        return None
    n = window.back + window.first + 5  # where each piece has lost keys of before
    long = trial.draw(replace(trial.fit(Sizes(batch=1, heads=1)), n=n), case.seed)
    return _check_cuts(trial, long, [(n,), (n - 4, 4), (n - 3, *(1,) * 3), (3, n - 3)])


_LONG = 256  # the widest window whose border is crossed by pieces
_NARROW = 3  # where it can be said


def _check_cuts(
    trial: Trial, case: Case, cuts: Sequence[tuple[int, ...]], **options: Any
) -> Finding | None:
    inputs = (case.query, case.key, case.value)
    expected = trial.call(*inputs, **options)
    allowed = 2 * trial.tolerance(*inputs)
    refused: Finding | None = None
    for cut in cuts:
        try:
            output = trial.call(*inputs, pieces=cut, **options)
        except Raised as raised:
            error = _describe_error(raised.error)
            refused = refused or Finding(
                Verdict.NOT_CLAIMED, UNCUT, {"pieces": _sum(cut), "error": error}
            )
            continue
        window = trial.subject.reading.formula.window
        if window is not None and max(cut) > window.back and output.isnan().any():
            refused = refused or Finding(Verdict.NOT_CLAIMED, UNFIT, {"pieces": _sum(cut)})
            continue
        found = miss(output, expected, allowed)
        if found is not None:
            values = {**found.values(), "pieces": _sum(cut)}
            failure = trial.failure(CUT, expected, **values)
            how = WINDOWED if options else _explain_mask(case, cut, output)
            return failure if how is None else failure.reword(CUT_AS, **values, how=how)
    return refused


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(".: ")


def _cuts(n: int) -> list[tuple[int, ...]]:
    """At once, pieces of two and three, four and then one each, one and the rest.

    In this order, for after a single position some ways to be wrong are the same.
    """
    singles = (1,) * max(0, n - 4)
    cuts = [(n,), (2, min(3, n - 2), n - 5), (min(4, n), *singles), (1, n - 1)]
    return list(dict.fromkeys(tuple(x for x in cut if x > 0) for cut in cuts if n > 1))


def _sum(cut: Sequence[int]) -> str:
    return " + ".join(map(str, cut))


def _explain_mask(case: Case, cut: tuple[int, ...], got: Tensor) -> Text | None:
    """The mask inside of pieces that gives ``got``, None when none is known."""
    n = case.query.shape[-2]
    start = torch.repeat_interleave(torch.tensor([sum(cut[:i]) for i in range(len(cut))]), _t(cut))
    size = torch.repeat_interleave(_t(cut), _t(cut))
    i, j = torch.arange(n)[:, None], torch.arange(n)
    stop, start, several = (start + size)[:, None], start[:, None], (size > 1)[:, None]
    past = j <= i
    ways = {
        TOP_LEFT: j <= i - start,
        UNMASKED: j < stop,
        ONE_FEWER: torch.where(several, j < i, past),
        ONE_MORE: torch.where(several, (j <= i + 1) & (j < stop), past),
        PIECE_ALONE: (j <= i) & (j >= start),
    }
    scores = case.query @ _repeat_heads(case.query, case.key).mT * case.query.shape[-1] ** -0.5
    for text, seen in ways.items():
        if bool((seen == past).all()):
            continue
        made = torch.softmax(scores.masked_fill(~seen, -torch.inf), -1)
        made = made @ _repeat_heads(case.query, case.value)
        rows = seen.any(-1)  # what the others get is anybody's guess
        if len(cut) > 1:
            rows = rows & (start > 0)[:, 0]  # the first piece may be right, for it has no past
        if bool(((made - got)[..., rows, :].abs() <= _CLOSE).all()):
            return text
    return None


def _t(cut: Sequence[int]) -> Tensor:
    return torch.tensor(cut)


def _repeat_heads(query: Tensor, tensor: Tensor) -> Tensor:
    return tensor.repeat_interleave(query.shape[1] // tensor.shape[1], 1)


@rule(
    statement=Text("Each step sees every key so far, the newest included."),
    formula=r"p_{tj} > 0 \quad \text{for all } j \le t",
    page=_PAGE,
    follows=("shape", "determinism"),
    asked_of=("step",),
)
def past_kept(trial: Trial, case: Case) -> Finding | None:
    weights = trial.weights(case.query, case.key)
    n = weights.shape[-1]
    lost = (weights.abs() < _WEIGHTLESS) & trial.visible_pairs(case)
    if not lost.any():
        return None
    newest = lost.diagonal(dim1=-2, dim2=-1).any()
    text = NEWEST if bool(newest and not lost.tril(-1).any()) else LOST
    first = torch.arange(n) == 0
    if bool((seen_keys(weights) == first).all()):
        text = FIRST_ALONE
    place = torch.nonzero(lost.tril(-1) if text is LOST else lost)[0].tolist()
    trial.call(case.query, case.key, case.value)  # the one to be shown
    return trial.failure(text, i=place[-2], j=place[-1])


def _check_same(trial: Trial, case: Case, text: Text, **flags: object) -> Finding | None:
    """Whether the outputs are the same when the sequence is fed otherwise."""
    inputs = (case.query, case.key, case.value)
    expected = trial.call(*inputs)
    output = trial.call(*inputs, **flags)
    found = miss(output, expected, 2 * trial.tolerance(*inputs))
    return found and trial.failure(text, expected, **found.values())


@rule(
    statement=Text(
        "Sequences that are decoded in turn, with a cache each, do not notice each other."
    ),
    formula=r"\partial O / \partial (Q, K, V)' = 0",
    page=_PAGE,
    follows=("shape", "determinism", "past_kept"),
    holds_of="any",
    asked_of=("step",),
)
def sequences_apart(trial: Trial, case: Case) -> Finding | None:
    return _check_same(trial, case, SHARED_CACHE, interleaved=True)


@rule(
    statement=Text("A step leaves the cache that it is given as it was."),
    formula=r"f(q_a, C),\; f(q_b, C): \quad C_{\text{after}} = C_{\text{before}}",
    page=_PAGE,
    may_refuse=True,
    may_crash=True,
    holds_of="any",
    asked_of=("step",),
    convention="cache",
    choices={None: "unchanged", CHANGES: "in-place"},
)
def cache_unchanged(trial: Trial, case: Case) -> Finding | None:
    for when in ("before", "after"):
        found = _check_same(trial, case, CHANGES, branched=when)
        if found is not None:
            return Finding(Verdict.CONVENTION, CHANGES, found.values)
    return None


@rule(
    statement=Text("The cache holds copies: the caller may overwrite its tensors after a step."),
    formula=r"K \leftarrow [K; K_{\text{new}}] \quad \text{(a copy)}",
    page=_PAGE,
    follows=("shape", "determinism", "past_kept", "sequences_apart"),
    holds_of="any",
    asked_of=("step",),
)
def cache_owns(trial: Trial, case: Case) -> Finding | None:
    inputs = (case.query, case.key, case.value)
    expected = trial.call(*inputs)
    allowed = 2 * trial.tolerance(*inputs)
    for cut in dict.fromkeys([(1,) * case.query.shape[-2], *_cuts(case.query.shape[-2])]):
        try:
            output = trial.call(*inputs, pieces=cut, overwritten=True)
        except Raised:
            continue  # `pieces` tells whether it takes several at a time
        found = miss(output, expected, allowed)
        if found is not None and miss(trial.call(*inputs, pieces=cut), expected, allowed) is None:
            trial.call(*inputs, pieces=cut, overwritten=True)  # the one to be shown
            return trial.unsafe_failure(ALIASED, expected, **found.values())
    return None


# One more than blocks of 64, 128, 256 and 1024 hold, and 1025 itself.
_LENGTHS = (65, 129, 257, 1026)
_ROWS = 4  # of the last positions that are compared: those around the end of a block


@rule(
    statement=Text(
        "A long cache forgets nothing: at 65, 129, 257 and 1026 positions the first key counts."
    ),
    formula=r"o_t = \sum_{j=1}^{t} p_{tj} v_j, \quad t \in \{65, 129, 257, 1026\}",
    page=_PAGE,
    sizes=Sizes(batch=1, heads=1, n=7, keep=("batch", "heads", "n", "d_k")),
    follows=("shape", "determinism", "past_kept"),
    asked_of=("step",),
)
def long_caches(trial: Trial, case: Case) -> Finding | None:
    if not trial.is_right(case) or trial.subject.reading.formula.biased:
        return None  # `oracle` tells of it; what is measured takes too long
    for n in _LENGTHS:
        long = trial.draw(Sizes(batch=1, heads=1, n=n), case.seed)
        try:
            output = trial.call(long.query, long.key, long.value)
        except Raised as raised:
            error = _describe_error(raised.error.__cause__ or raised.error)
            return Finding(Verdict.NOT_CLAIMED, FULL, {"n": n, "error": error})
        rows = torch.arange(n - _ROWS, n)
        inputs = (long.query, long.key, long.value)
        right = trial.truth(*inputs, rows=rows)
        found = miss(output[..., rows, :], right.output, right.allowance)
        if found is not None:
            row = int(rows[found.place[-2]])
            index = [*found.place[:-2], row, found.place[-1]]
            values = {**found.values(), "position": row, "index": index}
            failure = trial.failure(LONG, **values)
            query, key, value = (x[..., : row + 1, :] for x in inputs)
            lost = _count_forgotten(query[..., row:, :], key, value, output[..., row : row + 1, :])
            if lost is None:
                return failure
            values |= {"all": row + 1, "kept": row + 1 - lost}
            return failure.reword(FORGETS, **values)
    return None


def _count_forgotten(query: Tensor, key: Tensor, value: Tensor, got: Tensor) -> int | None:
    """Without how many of the first keys ``got`` is right; None when with any number it is not."""
    scores = query @ key.mT * query.shape[-1] ** -0.5
    for lost in range(1, key.shape[-2]):
        made = torch.softmax(scores[..., lost:], -1) @ value[..., lost:, :]
        if bool(((made - got).abs() <= 1e-3).all()):
            return lost
    return None


@rule(
    statement=Text("Gradients through the steps are those of one causal pass, or there are none."),
    formula=r"\partial L / \partial (Q, K, V), \quad O = [f(q_1); f(q_2); \ldots]",
    page=_PAGE,
    may_refuse=True,
    may_crash=True,
    follows=("shape", "determinism", "past_kept", "sequences_apart"),
    asked_of=("step",),
)
def step_gradients(trial: Trial, case: Case) -> Finding | None:
    if not trial.is_right(case):
        return None  # `oracle` tells of it
    shape = (*case.query.shape[:-1], case.value.shape[-1])
    upstream = torch.randn(shape, generator=case.generator(), dtype=torch.float64)
    found = trial.gradients(case, lambda output: upstream)
    if all(gradient is None for gradient in found.values()):
        return Finding(Verdict.NOT_CLAIMED, WITHOUT)
    right = trial.true_gradients(case, upstream)
    own = _own_steps(trial, case, upstream)
    for name, gradient in found.items():
        got = torch.zeros_like(right[name].expected) if gradient is None else gradient
        wrong = miss(got, right[name].expected, right[name].allowance)
        if wrong is None:
            continue
        if miss(got, own[name], right[name].allowance) is None:
            return Finding(Verdict.CONVENTION, CUT_OFF, {"name": name})
        return trial.failure(GRADIENT, right[name].expected, name=name, **wrong.values())
    return None


def _own_steps(trial: Trial, case: Case, upstream: Tensor) -> dict[str, Tensor]:
    """The gradients when what earlier steps have kept counts as constant."""
    tensors = [trial.to_double(x).requires_grad_() for x in (case.query, case.key, case.value)]
    query, key, value = tensors
    n = query.shape[-2]
    own = torch.eye(n, dtype=torch.bool)
    future = torch.ones(n, n, dtype=torch.bool).triu(1)
    with torch.enable_grad():
        constant = query @ key.detach().mT
        scores = torch.where(own, query @ key.mT, constant) * query.shape[-1] ** -0.5
        weights = torch.softmax(scores.masked_fill(future, -torch.inf), -1)
        output = weights.where(own, 0.0) @ value + weights.where(~own, 0.0) @ value.detach()
        found = torch.autograd.grad(loss(output, trial.to_double(upstream)), tensors)
    return dict(zip(("query", "key", "value"), found, strict=True))


@rule(
    statement=Text(
        "Samples of one batch may be at different positions, and each sees its own past."
    ),
    formula=r"o_{b, t} = \sum_{j \le t} p_{b, tj} v_{bj}, \quad t = t_b",
    page=_PAGE,
    asked_of=("step",),
    may_refuse=True,
    may_crash=True,
    follows=("shape", "determinism", "past_kept", "sequences_apart", "row_sums"),
)
def samples_apart(trial: Trial, case: Case) -> Finding | None:
    assert isinstance(trial.subject, StepSubject)
    step = trial.subject.step
    told = step.counting and COUNTING[step.counting].apart(torch.zeros(1, 1))
    shared = [each for each in step.along if trial.subject.extras[each].axes[0] != "b"]
    if told is None or shared:
        return Finding(Verdict.NOT_CLAIMED, TOGETHER)
    query, key, value = (trial.cast(x) for x in (case.query, case.key, case.value))
    expected = trial.call(case.query, case.key, case.value)
    lags = [2 * (sample % 2) for sample in range(case.query.shape[0])]
    with torch.no_grad():
        extras = trial.given_extras(query, key)
        output = step.decode_apart(query, key, value, lags=lags, **extras).double().cpu()
    allowed = 2 * trial.tolerance(case.query, case.key, case.value)
    found = miss(output, expected, allowed)
    return found and trial.failure(
        APART, expected, sample=found.place[0], lag=max(lags), **found.values()
    )
