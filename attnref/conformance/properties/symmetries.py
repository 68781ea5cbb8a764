"""What may change without changing the output, or changes it in a known way."""

import torch
from torch import Tensor

from attnref.conformance.case import Case
from attnref.conformance.comparison import miss
from attnref.conformance.property import OF_NUMBERS, rule
from attnref.conformance.trial import APART, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

ORDER = Text(
    "With keys and values in another order the output at {index} is {got:.6g} instead of "
    "{expected:.6g}: the position of a key matters, though nothing tells it."
)
CAUSAL = Text("It is causal, or positions are part of it, so the order of the keys matters.")
KNOWS_ORDER = Text(
    "It knows the order of its positions: in another order the output at {index} is {got:.6g} "
    "instead of {expected:.6g}. A layer with positions does so."
)
SHIFT = Text(
    "When the scores of each row all grow by one number, the output at {index} goes from "
    "{expected:.6g} to {got:.6g}: the weights are not those of a softmax."
)
NOT_LINEAR = Text(
    "For the values 2v - w the output at {index} is {got:.6g}; twice that for v, less that for "
    "w, is {expected:.6g}: something is done to the values besides averaging them."
)
RESCALED = Text(
    "With queries times {factor:g} and keys over {factor:g}, whose products are the same, the "
    "output at {index} goes from {expected:.6g} to {got:.6g}: large entries are cut off, or "
    "vectors are normalised."
)
SAMPLE = Text(
    "When the other samples of the batch change, the output of sample {i} goes from "
    "{expected:.6g} to {got:.6g}."
)
HEAD = Text(
    "When the other heads change, the output of head {i} goes from {expected:.6g} to {got:.6g}."
)


def coarsen(tensor: Tensor) -> Tensor:
    """Multiples of 1/8 up to 3: sums and doubles of two of them are exact in every dtype."""
    return (tensor * 8).round().clamp(-24, 24) / 8


@rule(
    statement=Text("The order of the keys does not matter as long as each keeps its value."),
    formula=r"f(Q, \Pi K, \Pi V) = f(Q, K, V)",
    page="foundations/positions",
    holds_of="any",
    follows=OF_NUMBERS,
    asked_of=("function",),
)
def key_permutation(trial: Trial, case: Case) -> Finding | None:
    inputs = (case.query, case.key, case.value)
    if trial.subject.positional:
        return Finding(Verdict.NOT_CLAIMED, CAUSAL)
    order = _derangement(case.key.shape[-2], case.generator())
    allowance = trial.tolerance(*inputs)
    kept = trial.call(*inputs)
    if trial.subject.apart:
        moved = trial.call(case.query, *(x[..., order, :] for x in inputs[1:]))
        found = miss(moved, kept, 2 * allowance)
    else:
        moved = trial.call(*(x[..., order, :] for x in inputs))
        found = miss(moved, kept[..., order, :], 2 * allowance[..., order, :])
        return found and Finding(Verdict.NOT_CLAIMED, KNOWS_ORDER, found.values())
    return found and trial.failure(ORDER, kept, **found.values())


def _derangement(m: int, generator: torch.Generator) -> Tensor:
    """An order in which no key keeps its place: the next one on a random round through all."""
    round_ = torch.randperm(m, generator=generator)
    order = torch.empty_like(round_)
    order[round_] = round_.roll(1)
    return order


@rule(
    statement=Text("Adding one number to all scores of a query changes nothing."),
    formula=r"\mathrm{softmax}(s + a) = \mathrm{softmax}(s)",
    page="foundations/softmax-or-sum",
    follows=(*OF_NUMBERS, *("scale",)),
    holds_of="products",
)
def shift_invariance(trial: Trial, case: Case) -> Finding | None:
    query, key = coarsen(case.query), coarsen(case.key)
    step = coarsen(2 * torch.randn(key.shape[-1], generator=case.generator(), dtype=torch.float64))
    before = trial.truth(query, key, case.value)
    after = trial.truth(query, key + step, case.value)  # each score grows by c q·step
    kept = trial.call(query, key, case.value)
    moved = trial.call(query, key + step, case.value)
    found = miss(moved, kept, before.allowance + after.allowance)
    return found and trial.failure(SHIFT, kept, **found.values())


@rule(
    statement=Text("Only the products of queries and keys count, not how large each of them is."),
    formula=r"f(cQ, K/c, V) = f(Q, K, V)",
    page="foundations/dot-product",
    follows=OF_NUMBERS,
)
def rescaling(trial: Trial, case: Case) -> Finding | None:
    if not trial.is_right(case):
        return None  # `oracle` tells of it
    # A power of two, so that only the exponents change.
    factor = _FACTORS.get(trial.dtype, 2.0**16)
    query, key = trial.to_double(case.query), trial.to_double(case.key)
    for large in (factor, 1 / factor):
        output = trial.call(query * large, key / large, case.value)
        right = trial.truth(query * large, key / large, case.value)
        found = miss(output, right.output, right.allowance)
        if found is not None:
            return trial.failure(RESCALED, right.output, factor=large, **found.values())
    return None


_FACTORS = {torch.float16: 2.0**6}  # whose numbers end at 65504


@rule(
    statement=Text("The output is linear in the values."),
    formula=r"f(Q, K, \alpha V + \beta W) = \alpha f(Q, K, V) + \beta f(Q, K, W)",
    page="foundations/matrix-form",
    follows=OF_NUMBERS,
)
def value_linearity(trial: Trial, case: Case) -> Finding | None:
    v, w = coarsen(case.value), coarsen(case.value.flip(-2, -1) + 1)
    allowed, parts = 0.0 * v[..., :1, :1], []
    for value, factor in ((2 * v - w, 1), (v, 2), (w, 1)):
        allowed = allowed + factor * trial.truth(case.query, case.key, value).allowance
        parts.append(trial.call(case.query, case.key, value))
    trial.call(case.query, case.key, 2 * v - w)  # the one to be shown
    both, one, other = parts
    found = miss(both, 2 * one - other, allowed)
    return found and trial.failure(NOT_LINEAR, 2 * one - other, **found.values())


@rule(
    statement=Text("A sample does not notice its neighbours in the batch."),
    formula=r"b' \ne b \implies \partial O_b / \partial (Q, K, V)_{b'} = 0",
    page="foundations/batches-and-padding",
    follows=OF_NUMBERS,
    holds_of="any",
)
def batch_independence(trial: Trial, case: Case) -> Finding | None:
    return _neighbours(trial, case, 0, SAMPLE)


@rule(
    statement=Text("A head does not notice the other heads."),
    formula=r"h' \ne h \implies \partial O_h / \partial (Q, K, V)_{h'} = 0",
    page="foundations/multi-head",
    follows=OF_NUMBERS,
    holds_of="any",
)
def head_independence(trial: Trial, case: Case) -> Finding | None:
    if not trial.subject.apart:
        return Finding(Verdict.NOT_ASKED, APART)
    return _neighbours(trial, case, 1, HEAD)


def _neighbours(trial: Trial, case: Case, axis: int, text: Text) -> Finding | None:
    """Each slice along ``axis`` in turn keeps its inputs, the others get other numbers."""
    allowance = trial.tolerance(case.query, case.key, case.value)
    kept = trial.call(case.query, case.key, case.value)
    for i in range(case.query.shape[axis]):
        own = torch.arange(case.query.shape[axis]) == i
        own = own.reshape(-1, *[1] * (3 - axis))  # along axis of four dimensions
        others = (
            torch.where(own, tensor, 1.0 - 2.0 * tensor)
            for tensor in (case.query, case.key, case.value)
        )
        moved = trial.call(*others).select(axis, i)
        found = miss(moved, kept.select(axis, i), 2 * allowance.select(axis, i))
        if found is not None:
            return trial.failure(text, kept, i=i, **found.values())
    return None
