"""Masks are obeyed: as bools, as numbers, in every shape, and together with causality."""

import itertools
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import argmax_index, miss
from attnref.conformance.meanings import CannotSay
from attnref.conformance.property import OF_CAUSALITY, OF_MASKS, OF_NUMBERS, rule
from attnref.conformance.trial import Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

INVERTED = Text(
    "It reads True as 'forbidden', the opposite of PyTorch's attn_mask: True = may attend."
)
IGNORED = Text("attn_mask is accepted but ignored: the output is the one without a mask.")
CAUSAL_INSTEAD = Text("attn_mask is discarded, and a causal mask put in its place.")
ADDED_BOOL = Text(
    "It adds the bools to the scores as 0 and 1. Forbid with scores.masked_fill(~attn_mask, -inf)."
)
NUMBERS_ALONE = Text("Its mask consists of numbers to add to the scores, not of bools.")
TRANSPOSED = Text("It reads the mask transposed. Row i is for query i, column j for key j.")
AFTER = Text(
    "It sets weights to zero after the softmax, so that a row no longer sums to 1. Mask the "
    "scores, with -inf, before the softmax."
)
LEAK = Text("Query {i} gives key {j} the weight {weight:.3g}, though the mask forbids it.")
OTHER = Text(
    "Under the mask the output at {index} is {got:.6g}, expected {expected:.6g} "
    "(allowed error {allowed:.1e})."
)
SEEN_THROUGH = Text("Position {j} is hidden from position {i}, and moves its output all the same.")
HIDDEN_TOO = Text("Position {j} may be seen by position {i}, and does not move its output.")
QUERIES = Text(
    "It hides queries, not keys: the mask lies along the axis of the queries, as (b, 1, n, 1). "
    "Give it the axes (b, 1, 1, m)."
)
AS_BOOL = Text(
    "It takes the float mask for a yes and no (not 0 = may attend) instead of adding it to the "
    "scores."
)
SUBTRACTED = Text("It subtracts the float mask from the scores instead of adding it.")
NOT_ADDED = Text(
    "The float mask is not simply added to the scores: the output at {index} is {got:.6g}, "
    "expected {expected:.6g}."
)
BROADCAST = Text(
    "A mask of shape {shape} and the same one expanded to {full} give different outputs: "
    "{got:.6g} and {expected:.6g} at {index}."
)
EACH = Text(
    "In a mask of shape {full} sample {sample} and head {head} do not obey their own part: the "
    "output at {index} is {got:.6g}, with that part as the mask of all {expected:.6g}."
)
CAUSAL_ONLY = Text("With both, attn_mask is ignored: the output is the one of is_causal alone.")
MASK_ONLY = Text("With both, is_causal is ignored: the output is the one of attn_mask alone.")
FLOATS_CAUSAL_ONLY = Text(
    "With both, a float attn_mask is ignored: the output is the one of is_causal alone."
)
FLOATS_MASK_ONLY = Text(
    "With both, is_causal is ignored beside a float mask: the output is the one of attn_mask alone."
)
EITHER = Text("With both, a key is seen that either of them allows; it must be allowed by both.")
REFUSES = Text(
    "It declines attn_mask together with is_causal: {error}. PyTorch does so in some of its "
    "kernels, and combines the two in others."
)
PADDING = Text(
    "With {more} padded positions instead of {few}, all masked, the output at {index} goes from "
    "{expected:.6g} to {got:.6g}."
)


def some_mask(case: Case, shape: tuple[int, ...]) -> Tensor:
    """Random bools in which each row allows its own key and forbids the next one, cyclically.

    So neither the mask, nor its opposite, nor its causal half leaves a row without keys, unless
    there is one key only, which is allowed.
    """
    mask = torch.rand(shape, generator=case.generator()) < 0.5
    n, m = shape[-2:]
    i, j = torch.arange(n)[:, None], torch.arange(m)
    return (mask | (j == i % m)) & ((j != (i + 1) % m) | (m == 1))


@rule(
    statement=Text("In a bool mask True means may attend, and what is False gets no weight."),
    formula=r"M_{ij} = \mathrm{False} \implies p_{ij} = 0",
    page="foundations/masks",
    needs=("attn_mask",),
    follows=OF_NUMBERS,
    holds_of="any",
)
def mask_polarity(trial: Trial, case: Case) -> Finding | None:
    if not trial.subject.apart:
        return _hides_positions(trial, case)
    mask = trial.restrict_mask(some_mask(case, (case.query.shape[-2], case.key.shape[-2])))
    try:
        found = _compare(trial, case, mask.double(), OTHER, attn_mask=mask)
    except Raised as raised:
        if trial.is_refusal(raised) or not adds_floats(trial, case):
            raise
        return Finding(Verdict.NOT_CLAIMED, NUMBERS_ALONE)
    if found is None:
        return None
    own = trial.weights(case.query, case.key)
    ways = {IGNORED: own, INVERTED: own * ~mask, ADDED_BOOL: own * mask.double().exp()}
    if mask.shape[-2] == mask.shape[-1]:
        ways[TRANSPOSED] = own * mask.mT
        ways[CAUSAL_INSTEAD] = own.tril()
    weights = trial.weights(case.query, case.key, attn_mask=mask)
    if bool(_is_close(weights, own * mask)):
        return found.reword(AFTER)
    for text, way in ways.items():
        if _is_close(weights, way / way.sum(-1, keepdim=True)):
            return found.reword(text)
    if -2 in trial.subject.reading.same_along and _hides_queries(mask, weights, own):
        return found.reword(QUERIES)
    leaks = weights.masked_fill(mask, 0.0).abs()
    if bool((leaks > 0).any()):
        place = argmax_index(leaks)
        return found.reword(LEAK, i=place[-2], j=place[-1], weight=float(leaks[place]))
    return found


def _hides_queries(mask: Tensor, weights: Tensor, own: Tensor) -> bool:
    """Whether the queries that are not hidden as keys see all keys, and the others do not."""
    kept = mask[..., :1, :].mT.expand_as(weights)  # of the queries
    near = (weights - own).abs() <= 1e-2 * own.abs() + 1e-4
    return bool((near | ~kept).all()) and not bool(near.all())


def _hides_positions(trial: Trial, case: Case) -> Finding | None:
    """Of a layer: what is hidden from a position moves no output there, and what is not, does."""
    n = case.query.shape[-2]
    own = torch.eye(n, dtype=torch.bool)
    if -2 in trial.subject.reading.same_along:  # one position is hidden from all the others
        mask = (torch.arange(n) != n // 2)[None]
        read = mask.mT
    else:
        mask = trial.restrict_mask(_chain(trial, case))
        read = mask.diagonal()[:, None]  # a position that its own mask hides is nobody's output
    plain, found = trial.dependence(case), trial.dependence(case, attn_mask=mask)
    seen = (plain & mask) | own
    reached = seen.clone()
    for _ in range(n):  # through others, where it has several layers
        reached = (reached.long() @ seen.long()) > 0
    for text, wrong in ((SEEN_THROUGH, found & ~reached), (HIDDEN_TOO, plain & mask & ~found)):
        wrong = wrong & read & ~own
        if wrong.any():
            i, j = wrong.nonzero()[0].tolist()
            return trial.failure(text, i=i, j=j)
    return None


def _chain(trial: Trial, case: Case) -> Tensor:
    """Each position sees itself and the one before, in some order; so no detour shows the rest."""
    n = case.query.shape[-2]
    place = torch.arange(n)
    if not trial.subject.always_causal:
        place = torch.randperm(n, generator=case.generator())
    before = place[:, None] - place
    return (before == 0) | (before == 1)


@rule(
    statement=Text("A float mask is added to the scores; -inf forbids."),
    formula=r"p_{ij} \propto e^{s_{ij} + b_{ij}}",
    page="foundations/masks",
    needs=("attn_mask",),
    may_crash=True,
    follows=OF_MASKS,
)
def float_mask(trial: Trial, case: Case) -> Finding | None:
    bias = some_bias(trial, case)
    found = _compare(trial, case, bias.exp(), NOT_ADDED, attn_mask=bias)
    if found is None:
        return None
    own = trial.weights(case.query, case.key)
    weights = trial.weights(case.query, case.key, attn_mask=bias)
    for text, way in {
        IGNORED: own,
        AS_BOOL: own * (bias != 0),
        SUBTRACTED: own * torch.exp(-bias.masked_fill(bias == -torch.inf, torch.inf)),
    }.items():
        if _is_close(weights, way / way.sum(-1, keepdim=True)):
            said = found.reword(text)
            # A mask that is a yes and no is a mask, and numbers to add are not promised.
            return replace(said, verdict=Verdict.CONVENTION) if text is AS_BOOL else said
    return found


def adds_floats(trial: Trial, case: Case) -> bool:
    """Whether numbers in a mask are added to the scores."""
    bias = some_bias(trial, case)
    try:
        return _compare(trial, case, bias.exp(), OTHER, attn_mask=bias) is None
    except Raised:
        return False


def yes_or_no(trial: Trial, case: Case) -> bool:
    """Whether numbers to add are taken for a yes and no, of which `float_mask` tells."""
    bias = some_bias(trial, case)
    way = trial.weights(case.query, case.key) * (bias != 0)
    try:
        weights = trial.weights(case.query, case.key, attn_mask=bias)
    except Raised:
        return False
    return _is_close(weights, way / way.sum(-1, keepdim=True))


def some_bias(trial: Trial, case: Case) -> Tensor:
    """Numbers to add, ``(n, m)``: tenths up to 2, with -inf where `some_mask` forbids.

    Tenths, because a narrower dtype would round them. Its own key has 0, which is no number to
    multiply by, and no yes.
    """
    mask = some_mask(case, (case.query.shape[-2], case.key.shape[-2]))
    bias = torch.randn(mask.shape, generator=case.generator(), dtype=torch.float64)
    bias = ((10 * bias).round().clamp(-20, 20) / 10).fill_diagonal_(0.0)
    return trial.to_double(trial.restrict_mask(bias.masked_fill(~mask, -torch.inf)))


@rule(
    statement=Text(
        "A mask for all heads, all samples or all queries is as good as an expanded one."
    ),
    formula=r"M \in \{(n, m), (h, n, m), (b, 1, 1, m), \ldots\} \to (b, h, n, m)",
    page="foundations/masks",
    sizes=Sizes(batch=3, heads=4),
    needs=("attn_mask",),
    may_crash=True,
    follows=OF_MASKS,
)
def mask_broadcast(trial: Trial, case: Case) -> Finding | None:
    return _broadcast(trial, case) or _broadcast(trial, _cube(case)) or _each_its_own(trial, case)


def _cube(case: Case) -> Case:
    """As many heads and positions as samples: only its place tells what an axis of a mask is."""
    least = min(case.query.shape[:3])
    query, key, value = (x[:least, :least, :least] for x in (case.query, case.key, case.value))
    return Case(query, key, value, case.seed)


def _broadcast(trial: Trial, case: Case) -> Finding | None:
    (b, h, n), m = case.query.shape[:3], case.key.shape[-2]
    declined, asked = None, False
    for shape in ((n, m), (1, 1, n, m), (h, n, m), (b, 1, 1, m), (b, 1, n, m), (1, h, n, m)):
        mask = some_mask(case, shape)
        full = mask.expand(b, h, n, m)
        allowance = trial.truth(case.query, case.key, case.value, attn_mask=full).allowance
        try:
            expected = trial.call(case.query, case.key, case.value, attn_mask=full.contiguous())
        except Raised as raised:
            if not isinstance(raised.error, CannotSay):
                raise
            declined = declined or raised
            continue
        asked = True
        try:
            output = trial.call(case.query, case.key, case.value, attn_mask=mask)
        except Raised as raised:
            declined = raised
            continue
        found = miss(output, expected, 2 * allowance)
        if found is not None:
            return trial.failure(
                BROADCAST, expected, shape=shape, full=(b, h, n, m), **found.values()
            )
    if declined is not None and not (asked and isinstance(declined.error, CannotSay)):
        raise declined
    return None


def _each_its_own(trial: Trial, case: Case) -> Finding | None:
    """Each sample and head under its part of a full mask, as if that were the mask of all."""
    (b, h, n), m = case.query.shape[:3], case.key.shape[-2]
    full = trial.restrict_mask(some_mask(case, (b, h, n, m)))
    allowance = trial.truth(case.query, case.key, case.value, attn_mask=full).allowance
    for sample, head in itertools.product(range(b), range(h)):
        part = full[sample, head].contiguous()
        expected = trial.call(case.query, case.key, case.value, attn_mask=part)
        output = trial.call(case.query, case.key, case.value, attn_mask=full)
        place = (slice(sample, sample + 1), slice(head, head + 1))
        found = miss(output[place], expected[place], 2 * allowance[place])
        if found is not None:
            index = [sample, head, *found.place[2:]]
            values = found.values() | {"index": index, "sample": sample, "head": head}
            return trial.failure(EACH, full=(b, h, n, m), **values)
    return None


@rule(
    statement=Text("attn_mask and is_causal together mean both."),
    formula=r"p_{ij} > 0 \iff M_{ij} \land j \le i",
    page="foundations/mask-traps",
    needs=("attn_mask", "is_causal"),
    follows=(*OF_MASKS, *OF_CAUSALITY),
)
def mask_with_causal(trial: Trial, case: Case) -> Finding | None:
    mask = trial.restrict_mask(some_mask(case, (case.query.shape[-2], case.key.shape[-2])))
    causal = torch.ones_like(mask).tril()
    options = {"attn_mask": mask, "is_causal": True}
    try:
        found = _compare(trial, case, (mask & causal).double(), OTHER, **options)
    except Raised as raised:
        if isinstance(raised.error, CannotSay) or not trial.is_refusal(raised):
            raise
        error = f"{type(raised.error).__name__}: {raised.error}".rstrip(". ")
        return Finding(Verdict.CONVENTION, REFUSES, {"error": error})
    if found is None:
        return _floats_with_causal(trial, case)
    weights = trial.weights(case.query, case.key, **options)
    own = trial.weights(case.query, case.key)
    for text, allowed in {CAUSAL_ONLY: causal, MASK_ONLY: mask, EITHER: causal | mask}.items():
        way = own * allowed
        if _is_close(weights, way / way.sum(-1, keepdim=True)):
            return found.reword(text)
    return found


def _floats_with_causal(trial: Trial, case: Case) -> Finding | None:
    """The same with numbers to add, where they are obeyed alone; `float_mask` tells of that."""
    bias = some_bias(trial, case)
    causal = torch.ones_like(bias).tril()
    options = {"attn_mask": bias, "is_causal": True}
    if not adds_floats(trial, case):
        return None
    try:
        found = _compare(trial, case, bias.exp() * causal, OTHER, **options)
    except Raised as raised:
        if not trial.is_refusal(raised):
            raise
        return None
    if found is None:
        return None
    weights = trial.weights(case.query, case.key, **options)
    own = trial.weights(case.query, case.key)
    for text, factor in {FLOATS_CAUSAL_ONLY: causal, FLOATS_MASK_ONLY: bias.exp()}.items():
        way = own * factor
        if _is_close(weights, way / way.sum(-1, keepdim=True)):
            return found.reword(text)
    return found


@rule(
    statement=Text("How many padded positions follow does not matter when they are masked."),
    formula=r"f(Q, [K; \ast], [V; \ast], M) = f(Q, K, V)",
    page="foundations/batches-and-padding",
    needs=("attn_mask",),
    follows=OF_MASKS,
)
def padding_amount(trial: Trial, case: Case) -> Finding | None:
    n = case.query.shape[-2]
    few, more = 1, 6
    outputs, allowed = [], 0.0 * case.value
    for extra in (few, more):
        inputs = [_pad(tensor, extra) for tensor in (case.query, case.key, case.value)]
        mask = (torch.arange(n + extra) < n).expand(n + extra, n + extra)
        outputs.append(trial.call(*inputs, attn_mask=mask.contiguous())[..., :n, :])
        allowed = allowed + trial.truth(*inputs, attn_mask=mask).allowance[..., :n, :]
    found = miss(outputs[1], outputs[0], allowed)
    return found and trial.failure(PADDING, outputs[0], few=few, more=more, **found.values())


def _pad(tensor: Tensor, extra: int) -> Tensor:
    """``extra`` more positions, that hold the first one again."""
    return torch.cat([tensor, tensor[..., :1, :].expand(*tensor.shape[:-2], extra, -1)], -2)


def _compare(
    trial: Trial, case: Case, factor: Tensor, text: Text, **options: Any
) -> Finding | None:
    """Whether the options multiply the function's own weights by ``factor``.

    Its weights are known up to rounding, and so is their sum: hence three allowances.
    """
    output = trial.call(case.query, case.key, case.value, **options)
    shown = trial.last
    right = trial.truth(case.query, case.key, case.value, attn_mask=factor.log())
    if trial.subject.reference is None:
        expected = trial.predict(case.query, case.key, case.value, factor)
    else:  # whose weights need not sum to one
        expected = right.output
    allowance = right.allowance
    found = miss(output, expected, 3 * allowance)
    trial.last = shown
    return found and trial.failure(text, expected, **found.values())


def _is_close(one: Tensor, other: Tensor) -> bool:
    """Near enough to say that these are the same weights."""
    return bool(((one - other).abs() <= 1e-2 * other.abs() + 1e-4).all())
