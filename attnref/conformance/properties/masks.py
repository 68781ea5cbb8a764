"""Masks are obeyed: as bools, as numbers, in every shape, and together with causality."""

import torch
from torch import Tensor

from attnref.conformance.case import Case
from attnref.conformance.property import rule
from attnref.conformance.text import Text
from attnref.conformance.trial import Trial, miss
from attnref.conformance.verdict import Finding

LEAK = Text(
    en="Query {i} gives key {j} the weight {weight:.3g}, though the mask forbids it.",
    pt="A consulta {i} dá à chave {j} o peso {weight:.3g}, embora a máscara o proíba.",
)
INVERTED = Text(
    en="It reads True as 'forbidden', the opposite of PyTorch's attn_mask: True = may attend.",
    pt="Ela lê True como 'proibido', o oposto de attn_mask do PyTorch: True = pode olhar.",
)
IGNORED = Text(
    en="attn_mask is accepted but ignored: the output is the one without a mask.",
    pt="attn_mask é aceito mas ignorado: a saída é a mesma de quando não há máscara.",
)
ADDED_BOOL = Text(
    en="It adds the bools to the scores as 0 and 1; forbid with "
    "scores.masked_fill(~attn_mask, -inf).",
    pt="Ela soma os booleanos aos escores como 0 e 1; proíba com "
    "scores.masked_fill(~attn_mask, -inf).",
)
TRANSPOSED = Text(
    en="It reads the mask transposed: rows are queries, columns are keys.",
    pt="Ela lê a máscara transposta: linhas são consultas, colunas são chaves.",
)
OTHER = Text(
    en="At {index} the output under the mask is {got:.6g}, expected {expected:.6g} "
    "(allowed error {allowed:.1e}).",
    pt="Em {index} a saída sob a máscara é {got:.6g}; o esperado é {expected:.6g} "
    "(erro permitido {allowed:.1e}).",
)


def some_mask(case: Case, shape: tuple[int, ...]) -> Tensor:
    """Random bools in which each row of square matrices allows and forbids something.

    The own key is allowed and the next one, cyclically, forbidden; so neither the mask nor its
    opposite leaves a row without keys, unless there is one key only, which is allowed.
    """
    mask = torch.rand(shape, generator=case.generator()) < 0.5
    n, m = shape[-2:]
    i, j = torch.arange(n)[:, None], torch.arange(m)
    return (mask | (j == i % m)) & ((j != (i + 1) % m) | (m == 1))


@rule(
    statement=Text(
        en="In a bool mask True means may attend, and what is False gets no weight.",
        pt="Em uma máscara booleana, True quer dizer pode olhar, e o que é False não recebe peso.",
    ),
    formula=r"M_{ij} = \mathrm{False} \implies p_{ij} = 0",
    page="foundations/masks",
    needs=("attn_mask",),
)
def mask_polarity(trial: Trial, case: Case) -> Finding | None:
    query, key, value = case.query, case.key, case.value
    mask = some_mask(case, (query.shape[-2], key.shape[-2]))
    expected = trial.truth(query, key, value, attn_mask=mask)
    output = trial.call(query, key, value, attn_mask=mask)
    found = miss(output, expected.output, expected.allowance)
    if found is None:
        return None
    failure = trial.failure(OTHER, wanted=expected.output, **found.values())
    others = {
        IGNORED: torch.zeros_like(mask, dtype=torch.float64),
        INVERTED: ~mask,
        TRANSPOSED: mask.mT,
        ADDED_BOOL: mask.double(),
    }
    for text, other in others.items():
        if other.shape != mask.shape:
            continue
        wrong = trial.truth(query, key, value, attn_mask=other)
        if miss(output, wrong.output, wrong.allowance) is None:
            return Finding(failure.verdict, text, {}, failure.counterexample)
    weights = trial.weights(query, key, attn_mask=mask).masked_fill(mask, 0.0)
    if bool((weights.abs() > expected.allowance.amax()).any()):
        place = torch.unravel_index(weights.abs().nan_to_num(2.0).argmax(), weights.shape)
        values = {"i": int(place[-2]), "j": int(place[-1]), "weight": float(weights[place])}
        return Finding(failure.verdict, LEAK, values, failure.counterexample)
    return failure
