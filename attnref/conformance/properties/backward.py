"""What a change of the inputs does to the output."""

from typing import Any

import torch

from attnref.conformance.case import Case
from attnref.conformance.comparison import miss
from attnref.conformance.properties.masks import some_mask
from attnref.conformance.property import rule
from attnref.conformance.text import Text
from attnref.conformance.trial import Trial
from attnref.conformance.verdict import Finding

NONE = Text(
    en="No gradient arrives at {name}: the way from it to the output is cut, by detach(), "
    "no_grad(), .data or a detour outside of PyTorch.",
    pt="Nenhum gradiente chega a {name}: o caminho dele até a saída está cortado, por detach(), "
    "no_grad(), .data ou um desvio para fora do PyTorch.",
)
OTHER = Text(
    en="The gradient of {name} at {index} is {got:.6g}, expected {expected:.6g} "
    "(allowed error {allowed:.1e}).",
    pt="O gradiente de {name} em {index} é {got:.6g}; o esperado é {expected:.6g} "
    "(erro permitido {allowed:.1e}).",
)


@rule(
    statement=Text(
        en="The gradients of query, key and value are those of the formula, up to rounding.",
        pt="Os gradientes de query, key e value são os da fórmula, a menos de arredondamento.",
    ),
    formula=r"dV = P^\top dO, \quad dS = P \circ (dP - \mathrm{rowsum}(P \circ dP))",
    page="scale/saturation",
)
def gradients(trial: Trial, case: Case) -> Finding | None:
    found = _compared(trial, case)
    mask = some_mask(case, (case.query.shape[-2], case.key.shape[-2]))
    for option, value in {"is_causal": True, "attn_mask": mask}.items():
        if found is None and trial.offers(option):
            options: dict[str, Any] = {option: value}
            # Where the output is wrong already, the property of the option tells of it.
            if trial.is_right(case, **options):
                found = _compared(trial, case, **options)
    return found


def _compared(trial: Trial, case: Case, **options: Any) -> Finding | None:
    shape = (*case.query.shape[:-1], case.value.shape[-1])
    upstream = torch.randn(shape, generator=case.generator(), dtype=torch.float64)
    found = trial.gradients(case, lambda output: upstream, **options)
    right = trial.true_gradients(case, upstream, **options)
    for name, got in found.items():
        if got is None:
            return trial.failure(NONE, name=name)
        wrong = miss(got, right[name].expected, right[name].allowance)
        if wrong is not None:
            return trial.failure(OTHER, name=name, **wrong.values())
    return None
