"""What a change of the inputs does to the output."""

import torch

from attnref.conformance import budget
from attnref.conformance.case import Case
from attnref.conformance.property import rule
from attnref.conformance.text import Text
from attnref.conformance.trial import Trial, miss
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
    leaves = {
        name: trial.given(tensor).detach().clone().requires_grad_()
        for name, tensor in (("query", case.query), ("key", case.key), ("value", case.value))
    }
    with torch.enable_grad():
        output = trial.output(*leaves.values())
        grad_output = torch.randn(
            output.shape, generator=case.generator(), dtype=torch.float64
        ).to(trial.dtype)
        if not output.requires_grad:
            return trial.failure(NONE, name="query")
        found = trial.backward(output, tuple(leaves.values()), trial.given(grad_output))
    rounded = (tensor.to(trial.dtype) for tensor in (case.query, case.key, case.value))
    expected = budget.gradients(grad_output, *rounded, budget.Setting(), trial.device)
    for index, name in enumerate(leaves):
        got = found[index]
        if got is None:
            return trial.failure(NONE, name=name)
        wrong = miss(got.double().cpu(), expected.expected[index], expected.allowance[index])
        if wrong is not None:
            return trial.failure(OTHER, name=name, **wrong.values())
    return None
