"""Under is_causal a query sees its past and itself."""

import torch

from attnref.conformance.case import Case
from attnref.conformance.property import rule
from attnref.conformance.text import Text
from attnref.conformance.trial import Trial, miss
from attnref.conformance.verdict import Finding

IGNORED = Text(
    en="is_causal=True is accepted but ignored: query {i} gives key {j}, in its future, the "
    "weight {weight:.3g}, as it does without it.",
    pt="is_causal=True é aceito mas ignorado: a consulta {i} dá à chave {j}, que está no seu "
    "futuro, o peso {weight:.3g}, o mesmo de quando não é pedido.",
)
FUTURE = Text(
    en="The future moves the past: query {i} gives key {j} the weight {weight:.3g}.",
    pt="O futuro mexe no passado: a consulta {i} dá à chave {j} o peso {weight:.3g}.",
)
MOVED = Text(
    en="When keys and values after {i} change, the output of query {i} moves by {change:.3g}.",
    pt="Quando as chaves e os valores depois de {i} mudam, a saída da consulta {i} se move "
    "{change:.3g}.",
)


@rule(
    statement=Text(
        en="With is_causal, whatever changes in the future leaves the past as it is.",
        pt="Com is_causal, o que muda no futuro deixa o passado como está.",
    ),
    formula=r"j > i \implies \partial o_i / \partial (k_j, v_j) = 0",
    page="foundations/masks",
    needs=("is_causal",),
)
def causality(trial: Trial, case: Case) -> Finding | None:
    n = case.query.shape[-2]
    kept = trial.call(case.query, case.key, case.value, is_causal=True)
    for i in range(n - 1):
        key, value = case.key.clone(), case.value.clone()
        key[..., i + 1 :, :] += 1.0
        value[..., i + 1 :, :] += 8.0
        moved = trial.call(case.query, key, value, is_causal=True)
        past = slice(0, i + 1)
        allowed = _allowance(trial, case)[..., past, :]
        found = miss(moved[..., past, :], kept[..., past, :], 2 * allowed)
        if found is not None:
            failure = trial.failure(MOVED, i=found.index[-2], change=abs(found.got - found.expected))
            return _which(trial, case, failure)
    return None


def _allowance(trial: Trial, case: Case) -> torch.Tensor:
    return trial.truth(case.query, case.key, case.value, is_causal=True).allowance


def _which(trial: Trial, case: Case, failure: Finding) -> Finding:
    """Names the future key that weighs most, if one does."""
    weights = trial.weights(case.query, case.key, is_causal=True)
    future = weights.triu(1)
    place = torch.unravel_index(future.abs().nan_to_num(0.0).argmax(), future.shape)
    weight = float(future[place])
    if not weight:
        return failure
    plain = trial.weights(case.query, case.key)
    text = IGNORED if bool((plain == weights).all()) else FUTURE
    values = {"i": int(place[-2]), "j": int(place[-1]), "weight": weight}
    return Finding(failure.verdict, text, values, failure.counterexample)
