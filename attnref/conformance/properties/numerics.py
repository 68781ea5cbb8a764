"""Scores far from zero: the exponential must neither overflow nor vanish."""

from typing import Any

import torch
from torch import Tensor

from attnref.conformance import budget
from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss
from attnref.conformance.property import rule
from attnref.conformance.text import Text
from attnref.conformance.trial import Trial
from attnref.conformance.verdict import Finding

VANISHED = Text(
    en="With all scores at {score:.4g} the output at {index} is {got:.4g}, expected "
    "{expected:.4g}, the mean of the values: all exponentials vanish. Subtract the row's largest "
    "score first.",
    pt="Com todos os escores em {score:.4g}, a saída em {index} é {got:.4g}; o esperado é "
    "{expected:.4g}, a média dos valores: todas as exponenciais somem. Subtraia antes o maior "
    "escore da linha.",
)
OUTDONE = Text(
    en="With allowed scores at {score:.4g} the forbidden keys win: the output at {index} is "
    "{got:.4g}, expected {expected:.4g}. {option} puts a number above them in place of -inf.",
    pt="Com os escores permitidos em {score:.4g}, as chaves proibidas vencem: a saída em {index} é "
    "{got:.4g}; o esperado é {expected:.4g}. {option} põe um número maior que eles no lugar de "
    "-inf.",
)
OVERFLOW = Text(
    en="With scores of {score:.4g} the output at {index} is {got:.4g}, expected {expected:.4g}: "
    "the exponential overflows. Subtract the row's largest score first.",
    pt="Com escores de {score:.4g}, a saída em {index} é {got:.4g}; o esperado é {expected:.4g}: a "
    "exponencial estoura. Subtraia antes o maior escore da linha.",
)
CLAMPED = Text(
    en="Two scores that differ by 1 weigh differently at {low:.4g} and at {high:.4g}: the output "
    "at {index} goes from {expected:.4g} to {got:.4g}. Large scores are cut off or rounded.",
    pt="Dois escores que diferem de 1 pesam de modo diferente em {low:.4g} e em {high:.4g}: a "
    "saída em {index} vai de {expected:.4g} a {got:.4g}. Escores grandes são cortados ou "
    "arredondados.",
)

NEITHER = Text(
    en="With scores of {score:.4g} the output at {index} is {got:.4g}, expected {expected:.4g}; "
    "with scores of 0 it is not the mean of the values either.",
    pt="Com escores de {score:.4g}, a saída em {index} é {got:.4g}; o esperado é {expected:.4g}; "
    "com escores 0 ela também não é a média dos valores.",
)

# d_k = 16, so that 1/sqrt(d_k) is 1/4 and every score below is exact in every dtype.
EXACT = Sizes(batch=1, heads=2, n=5, d_k=16, keep=("d_k",))


def along_first(like: Tensor, numbers: Tensor | float) -> Tensor:
    """Vectors in the shape of ``like`` with these first components, and zeros else."""
    vectors = torch.zeros_like(like)
    vectors[..., 0] = torch.as_tensor(numbers, dtype=like.dtype)
    return vectors


@rule(
    statement=Text(
        en="Very negative scores are as good as others, with and without a mask.",
        pt="Escores muito negativos valem tanto quanto os outros, com e sem máscara.",
    ),
    formula=r"\mathrm{softmax}(s - a) = \mathrm{softmax}(s), \quad s_{ij} \ll 0",
    page="foundations/mask-traps",
    sizes=EXACT,
    danger=True,
)
def very_negative_scores(trial: Trial, case: Case) -> Finding | None:
    n, d_k = case.query.shape[-2:]
    value = trial.seen(case.value)
    every = torch.ones(n, n, dtype=torch.bool)
    first = (torch.arange(n) < max(1, n - 2)).expand(n, n).contiguous()
    ways: dict[str | None, tuple[Tensor, dict[str, Any]]] = {None: (every, {})}
    if trial.offers("attn_mask"):
        ways["attn_mask"] = (first, {"attn_mask": first})
    if trial.offers("is_causal"):
        ways["is_causal"] = (every.tril(), {"is_causal": True})
    for size in _sizes(trial.dtype):
        query = along_first(case.query, size)
        for option, (allowed, options) in ways.items():
            # The forbidden keys score 0, unless some query may see them.
            numbers = torch.where(allowed.all(0) | (option == "is_causal"), -size, 0.0)
            key = along_first(case.key, numbers)
            # Under causality the last query sees all; the others share the score.
            shares = allowed.double() / allowed.sum(-1, keepdim=True)
            output = trial.call(query, key, case.value, **options)
            found = miss(output, shares @ value, budget.of_mean(value, trial.dtype))
            if found is not None:
                text = VANISHED if option is None else OUTDONE
                text = text if _averages(trial, case) else NEITHER
                score = -size * size * d_k**-0.5
                return trial.failure(
                    text, shares @ value, score=score, option=option, **found.values()
                )
    return None


def _sizes(dtype: torch.dtype) -> tuple[float, ...]:
    """Of the components of query and key: with d_k = 16 the scores are -15360 and about -1.7e10.

    So they lie below -10000 and -1e9, which are taken for -inf. A product of 61440 is the most
    that float16 holds; there the second is left out.
    """
    return (248.0,) if dtype == torch.float16 else (248.0, 2.0**18)


@rule(
    statement=Text(
        en="Large scores do not overflow.",
        pt="Escores grandes não causam estouro.",
    ),
    formula=r"\mathrm{softmax}(s) = \mathrm{softmax}(s - \max s)",
    page="scale/saturation",
    sizes=EXACT,
    danger=True,
)
def large_scores(trial: Trial, case: Case) -> Finding | None:
    n, d_k = case.query.shape[-2:]
    value = trial.seen(case.value)
    pair = torch.arange(n) < min(2, n)
    # Two keys of one large score, the others of its opposite: the mean of the two values.
    query = along_first(case.query, 248.0)
    key = along_first(case.key, torch.where(pair, 248.0, -248.0))
    expected = value[..., pair, :].mean(-2, keepdim=True).expand_as(value)
    output = trial.call(query, key, case.value)
    found = miss(output, expected, budget.of_mean(value, trial.dtype))
    if found is not None:
        score = 248.0 * 248.0 * d_k**-0.5
        failure = trial.failure(OVERFLOW, expected, score=score, **found.values())
        return failure if _averages(trial, case) else failure.reworded(NEITHER, **failure.values)
    return _clamped(trial, case)


def _averages(trial: Trial, case: Case) -> bool:
    """Whether a query of zeros gets the mean of the values; if not, no exponential is to blame."""
    value = trial.seen(case.value)
    shown = trial.last
    output = trial.call(torch.zeros_like(case.query), case.key, case.value)
    trial.last = shown
    mean = value.mean(-2, keepdim=True).expand_as(value)
    return miss(output, mean, budget.of_mean(value, trial.dtype)) is None


def _clamped(trial: Trial, case: Case) -> Finding | None:
    """The same difference of scores at the bottom and at the top."""
    n, d_k = case.query.shape[-2:]
    query = along_first(case.query, 16.0)
    steps = torch.where(torch.arange(n) == 0, 0.25, 0.0)
    bottom, top = (along_first(case.key, steps + shift) for shift in (0.0, 23.75))
    kept = trial.call(query, bottom, case.value)
    moved = trial.call(query, top, case.value)
    allowance = trial.truth(query, top, case.value, exact_scores=True).allowance
    found = miss(moved, kept, 2 * allowance)
    if found is None:
        return None
    low, high = (16.0 * number * d_k**-0.5 for number in (0.25, 24.0))
    return trial.failure(CLAMPED, kept, low=low, high=high, **found.values())
