"""What is asked of a layer whose query, key and value cannot be given apart.

The properties have the names of those that they stand for. What moves an output, and what does
not, is seen by giving one position other numbers.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss
from attnref.conformance.layers.whole import differs
from attnref.conformance.properties.symmetries import SAMPLE
from attnref.conformance.property import Property, rule
from attnref.conformance.trial import Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

APART = Text(
    en="Not tested: query, key and value cannot be given apart to this layer.",
    pt="Não testado: a esta camada não se pode dar consulta, chave e valor em separado.",
)
SEES_ALL = Text(
    en="Each position sees the whole sequence: it is not causal.",
    pt="Cada posição vê a sequência inteira: ela não é causal.",
)
SEES_SOME = Text(
    en="Position {i} sees {count} of {n} positions: neither all, nor all of the past and no more.",
    pt="A posição {i} vê {count} de {n} posições: nem todas, nem todo o passado e nada mais.",
)
LEAKS = Text(
    en="It sees all of its past, and one position of its future: the output at position {i} "
    "changes with the numbers of position {j}. The causal mask is off by one: keep j <= i.",
    pt="Ela vê todo o passado e uma posição do futuro: a saída na posição {i} muda com os números "
    "da posição {j}. A máscara causal está deslocada de um: permita j <= i.",
)
KNOWS_ORDER = Text(
    en="It knows the order of its positions: in another order the output at {index} is {got:.6g} "
    "instead of {expected:.6g}. A layer with positions does so.",
    pt="Ela conhece a ordem das posições: em outra ordem, a saída em {index} é {got:.6g} em vez de "
    "{expected:.6g}. Assim faz uma camada com posições.",
)
CAUSAL_ORDER = Text(
    en="It does not see the whole sequence, so its order counts.",
    pt="Ela não vê a sequência inteira, e por isso a ordem conta.",
)
SEEN_THROUGH = Text(
    en="Position {j} is hidden from position {i}, and moves its output all the same.",
    pt="A posição {j} está escondida da posição {i}, e mesmo assim muda a saída dela.",
)
HIDDEN_TOO = Text(
    en="Position {j} may be seen by position {i}, and does not move its output.",
    pt="A posição {j} pode ser vista pela posição {i}, e não muda a saída dela.",
)
NAN_THROUGH = Text(
    en="NaN in position {j}, which is hidden from all others, reaches position {i}: 0 · NaN is "
    "NaN. Replace hidden values before the product.",
    pt="Um NaN na posição {j}, escondida de todas as outras, chega à posição {i}: 0 · NaN é NaN. "
    "Substitua os valores escondidos antes do produto.",
)
NAN_HIDDEN = Text(
    en="If every position is hidden, the output is NaN.",
    pt="Se todas as posições estão escondidas, a saída é NaN.",
)
DIFFERS = Text(
    en="Called twice with the same sequence, and with another in between, it answers "
    "{expected:.9g} and {got:.9g} at {index}: it keeps something between calls, or draws random "
    "numbers.",
    pt="Chamada duas vezes com a mesma sequência, e com outra no meio, ela responde "
    "{expected:.9g} e {got:.9g} em {index}: guarda algo entre chamadas, ou sorteia números.",
)
STRIDES = Text(
    en="For a sequence that is not contiguous in memory the output at {index} is {got:.6g}, for "
    "its copy {expected:.6g}.",
    pt="Para uma sequência não contígua na memória, a saída em {index} é {got:.6g}; para a cópia "
    "dela, {expected:.6g}.",
)
LENGTHS = Text(
    en="Cut off after {few} of {n} positions, the sequence gets {got:.6g} at {index}, in its whole "
    "length {expected:.6g}, though no position sees its future.",
    pt="Cortada depois de {few} de {n} posições, a sequência recebe {got:.6g} em {index}; inteira, "
    "{expected:.6g}, embora nenhuma posição veja o futuro.",
)
SLOPE = Text(
    en="The gradient times a direction is {got:.6g}, the change of the output in that direction "
    "{expected:.6g}.",
    pt="O gradiente vezes uma direção é {got:.6g}; a mudança da saída nessa direção, "
    "{expected:.6g}.",
)
NO_GRADIENT = Text(
    en="Its output has no gradient to the sequence.",
    pt="A saída não tem gradiente em relação à sequência.",
)
NOT_FINITE = Text(
    en="For a sequence of one position the output is {got}.",
    pt="Para uma sequência de uma posição, a saída é {got}.",
)

_ONE = Sizes(batch=1, heads=1)  # heads are further samples
_SEVERAL = Sizes(batch=3, heads=1)
# Of a difference in float64. Between two points there may be a kink, as those of a ReLU are, which
# a smaller step escapes, and what is computed in float32 wants a larger one; a wrong gradient is
# wrong at each.
_STEPS = (1e-3, 1e-4, 1e-6, 1e-7, 1e-8)
_SLOPE = 1e-4  # relative error of a slope that counts


def _output(trial: Trial, x: Tensor, **options: Any) -> Tensor:
    return trial.call(x, x, x, **options)


def _change_position(x: Tensor, j: int) -> Tensor:
    """With other numbers at position j."""
    other = x.clone()
    other[..., j, :] = 1.0 - 2.0 * other[..., j, :]
    return other


def _moved_positions(trial: Trial, before: Tensor, after: Tensor) -> Tensor:
    """The positions at which two outputs differ."""
    return differs(before.to(trial.dtype), after.to(trial.dtype))


def _dependence(trial: Trial, case: Case, **options: Any) -> Tensor:
    """Whether output i is moved by position j, ``(n, n)``."""
    x = case.query[:1, :1]
    before = _output(trial, x, **options)
    columns = [
        _moved_positions(trial, before, _output(trial, _change_position(x, j), **options))[0, 0]
        for j in range(x.shape[-2])
    ]
    return torch.stack(columns, -1)


@rule(
    statement=Text(
        en="The output has the shape of the sequence.",
        pt="A saída tem a forma da sequência.",
    ),
    formula=r"O \in \mathbb{R}^{b \times n \times w}",
    page="foundations/multi-head",
    sizes=_SEVERAL,
)
def shape(trial: Trial, case: Case) -> Finding | None:
    _output(trial, case.query)  # which says so
    return None


@rule(
    statement=Text(
        en="A sample does not notice its neighbours in the batch.",
        pt="Uma amostra não percebe as vizinhas no lote.",
    ),
    formula=r"b' \ne b \implies \partial O_b / \partial X_{b'} = 0",
    page="foundations/batches-and-padding",
    sizes=_SEVERAL,
)
def batch_independence(trial: Trial, case: Case) -> Finding | None:
    kept = _output(trial, case.query)
    for i in range(len(kept)):
        own = (torch.arange(len(kept)) == i).reshape(-1, 1, 1, 1)
        other = _output(trial, torch.where(own, case.query, 1.0 - 2.0 * case.query))
        if _moved_positions(trial, kept[i], other[i]).any():
            found = miss(other[i], kept[i], 0.0)
            assert found is not None
            return trial.failure(SAMPLE, kept, i=i, **found.values())
    return None


@rule(
    statement=Text(
        en="A causal layer shows no position its future.",
        pt="Uma camada causal não mostra o futuro a nenhuma posição.",
    ),
    formula=r"j > i \implies \partial O_i / \partial X_j = 0",
    page="foundations/masks",
    sizes=_ONE,
)
def causality(trial: Trial, case: Case) -> Finding | None:
    sight = _dependence(trial, case)
    n = len(sight)
    past = torch.ones_like(sight).tril()
    if torch.equal(sight, past):
        return None
    if sight.all():
        return Finding(Verdict.NOT_CLAIMED, SEES_ALL)
    if n > 2 and torch.equal(sight, torch.ones_like(sight).tril(1)):
        return trial.failure(LEAKS, i=0, j=1)
    i = int((sight != past).any(-1).nonzero()[0])
    values = {"i": i, "count": int(sight[i].sum()), "n": n}
    return Finding(Verdict.NOT_CLAIMED, SEES_SOME, values)


@rule(
    statement=Text(
        en="In another order of the positions the outputs come in that order.",
        pt="Em outra ordem das posições, as saídas vêm nessa ordem.",
    ),
    formula=r"f(PX) = P f(X)",
    page="foundations/positions",
    sizes=_ONE,
)
def key_permutation(trial: Trial, case: Case) -> Finding | None:
    if not _dependence(trial, case).all():
        return Finding(Verdict.NOT_CLAIMED, CAUSAL_ORDER)
    order = torch.randperm(case.query.shape[-2], generator=case.generator())
    expected = _output(trial, case.query)[..., order, :]
    output = _output(trial, case.query[..., order, :])
    if not _moved_positions(trial, expected, output).any():
        return None
    found = miss(output, expected, 0.0)
    assert found is not None
    return Finding(Verdict.NOT_CLAIMED, KNOWS_ORDER, found.values())


@rule(
    statement=Text(
        en="What a mask hides moves no other output, and what it shows does.",
        pt="O que uma máscara esconde não muda nenhuma outra saída, e o que ela mostra, muda.",
    ),
    formula=r"M_{ij} = 0 \implies \partial O_i / \partial X_j = 0",
    page="foundations/masks",
    sizes=_ONE,
    needs=("attn_mask",),
)
def mask_polarity(trial: Trial, case: Case) -> Finding | None:
    n = case.query.shape[-2]
    own = torch.eye(n, dtype=torch.bool)
    mask = trial.restrict_mask(_chain(trial, case))
    plain, found = _dependence(trial, case), _dependence(trial, case, attn_mask=mask)
    seen = (plain & mask) | own
    reached = seen.clone()
    for _ in range(n):  # through others, where it has several layers
        reached = (reached.long() @ seen.long()) > 0
    read = mask.diagonal()[:, None]  # a position that its own mask hides is nobody's output
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


def _all_but(case: Case, j: int) -> Tensor:
    n = case.query.shape[-2]
    return (torch.arange(n) != j).expand(n, n).contiguous()


@rule(
    statement=Text(
        en="NaN in a hidden position stays there.",
        pt="Um NaN numa posição escondida fica nela.",
    ),
    formula=r"X_j = \mathrm{NaN},\; M_{ij} = 0 \;\forall i \ne j \implies O_i \in \mathbb{R}^w",
    page="foundations/mask-traps",
    sizes=_ONE,
    needs=("attn_mask",),
)
def nan_behind_mask(trial: Trial, case: Case) -> Finding | None:
    x, j = case.query.clone(), case.query.shape[-2] // 2
    x[..., j, :] = torch.nan
    reached = _output(trial, x, attn_mask=_all_but(case, j)).isnan().any(-1)[0, 0]
    reached[j] = False
    if not reached.any():
        return None
    return trial.unsafe_failure(NAN_THROUGH, i=int(reached.nonzero()[0]), j=j)


@rule(
    statement=Text(
        en="If every position is hidden, the output is a number.",
        pt="Se todas as posições estão escondidas, a saída é um número.",
    ),
    formula=r"M = 0 \implies O \in \mathbb{R}^{n \times w}",
    page="foundations/mask-traps",
    sizes=_ONE,
    needs=("attn_mask",),
)
def fully_masked(trial: Trial, case: Case) -> Finding | None:
    n = case.query.shape[-2]
    output = _output(trial, case.query, attn_mask=torch.zeros(n, n, dtype=torch.bool))
    return trial.unsafe_failure(NAN_HIDDEN) if output.isnan().any() else None


@rule(
    statement=Text(
        en="The gradient is the slope of the output.",
        pt="O gradiente é a inclinação da saída.",
    ),
    formula=r"\langle \nabla f(X), U \rangle = \lim_{t \to 0} (f(X + tU) - f(X - tU)) / 2t",
    page="scale/saturation",
    sizes=_ONE,
    may_crash=True,
)
def gradients(trial: Trial, case: Case) -> Finding | None:
    double = Trial(trial.subject, torch.float64, trial.device)
    drawn = [torch.randn(case.query.shape, generator=case.generator(), dtype=torch.float64)] * 2
    upstream, direction = drawn[0], drawn[1].flip(-1)
    own = double.gradients(Case(case.query, case.query, case.query, case.seed), lambda _: upstream)
    parts = [each for each in own.values() if each is not None]
    if not parts:
        return Finding(Verdict.NOT_CLAIMED, NO_GRADIENT)
    got = float((torch.stack(parts).sum(0) * direction).sum())
    for step in _STEPS:
        beside = [_output(double, case.query + sign * step * direction) for sign in (1, -1)]
        changes = (beside[0] - beside[1]) * upstream / (2 * step)
        expected = float(changes.sum())
        if abs(got - expected) <= _SLOPE * float(changes.abs().sum()):
            return None
    return double.failure(SLOPE, got=got, expected=expected)


@rule(
    statement=Text(
        en="A sequence that is a view, not contiguous in memory, gives the same output.",
        pt="Uma sequência que é uma vista, não contígua na memória, dá a mesma saída.",
    ),
    formula=r"f(\text{view of } X) = f(\text{copy of } X)",
    page="foundations/multi-head",
    sizes=_SEVERAL,
    may_refuse=True,
)
def strided(trial: Trial, case: Case) -> Finding | None:
    view = torch.stack([case.query, case.query + 1], -1).to(trial.dtype).flatten(-2)[..., ::2]
    view = view.to(trial.device)
    with torch.no_grad():
        output = trial.output(view, view, view).double().cpu()
    expected = _output(trial, case.query)
    found = miss(output, expected, 0.0)
    if found is None or not _moved_positions(trial, expected, output).any():
        return None
    return trial.failure(STRIDES, expected, **found.values())


@rule(
    statement=Text(
        en="The same sequence gives the same output.",
        pt="A mesma sequência dá a mesma saída.",
    ),
    formula=r"f(X) = f(X)",
    page="foundations/dropout",
    sizes=_SEVERAL,
)
def determinism(trial: Trial, case: Case) -> Finding | None:
    first = _output(trial, case.query)
    _output(trial, case.query.flip(-1, -2))
    found = miss(_output(trial, case.query), first, 0.0)
    return found and trial.failure(DIFFERS, first, **found.values())


@rule(
    statement=Text(
        en="A sequence of one position has an answer.",
        pt="Uma sequência de uma posição tem resposta.",
    ),
    formula=r"n = 1 \implies O \in \mathbb{R}^{1 \times w}",
    page="foundations/matrix-form",
    sizes=replace(_ONE, n=1),
    may_refuse=True,
    may_crash=True,
)
def single_token(trial: Trial, case: Case) -> Finding | None:
    output = _output(trial, case.query)
    bad = output[~output.isfinite()]
    return trial.failure(NOT_FINITE, got=float(bad[0])) if len(bad) else None


@rule(
    statement=Text(
        en="A causal layer gives the beginning of a sequence what it gives it alone.",
        pt="Uma camada causal dá ao começo de uma sequência o que lhe dá sozinho.",
    ),
    formula=r"f(X_{1:k}) = f(X)_{1:k}",
    page="foundations/kv-cache",
    sizes=replace(_ONE, n=33),
    may_refuse=True,
    may_crash=True,
)
def other_sizes(trial: Trial, case: Case) -> Finding | None:
    if not trial.subject.always_causal:
        return Finding(Verdict.NOT_CLAIMED, SEES_ALL)
    n = case.query.shape[-2]
    whole = _output(trial, case.query)
    for few in (1, n // 2, n - 1):
        output, expected = _output(trial, case.query[..., :few, :]), whole[..., :few, :]
        found = miss(output, expected, 0.0)
        if found is not None and _moved_positions(trial, expected, output).any():
            return trial.failure(LENGTHS, expected, few=few, n=n, **found.values())
    return None


def _not_asked(trial: Trial, case: Case) -> Finding:
    return Finding(Verdict.NOT_ASKED, APART)


OF_WHOLES = {
    each.name: each
    for each in (
        shape,
        batch_independence,
        causality,
        key_permutation,
        mask_polarity,
        nan_behind_mask,
        fully_masked,
        gradients,
        strided,
        determinism,
        single_token,
        other_sizes,
    )
}
_AS_THEY_ARE = ("dtype", "inputs_unchanged")


def whole_property(prop: Property) -> Property:
    """What stands for a property where a layer is judged as a whole."""
    if prop.name in _AS_THEY_ARE:
        return replace(prop, kind="whole")
    unasked = replace(prop, test=_not_asked, needs=(), sizes=_ONE)
    return replace(OF_WHOLES.get(prop.name, unasked), kind="whole")
