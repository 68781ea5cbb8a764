"""What no query may attend to stays without effect, whatever it holds."""

import math
from typing import Any

import torch
from torch import Tensor

from attnref.conformance.case import Case
from attnref.conformance.comparison import miss
from attnref.conformance.interface import SINKS
from attnref.conformance.properties.masks import yes_or_no
from attnref.conformance.property import OF_CAUSALITY, OF_MASKS, rule
from attnref.conformance.trial import Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

NAN = Text(
    "A query whose mask forbids all keys gets NaN ({kind} mask): 0/0 in the softmax. Give it "
    "zeros, for example with masked_fill({none}, 0.0) at the end."
)
MEAN = Text(
    "A query whose mask forbids all keys gets the mean of their values ({kind} mask): a large "
    "negative number in place of -inf makes all weights equal. It must get zeros."
)
UNMASKED = Text(
    "A query whose mask forbids all keys gets what it would get without a mask ({kind} mask). "
    "It must get zeros."
)
NOT_ZERO = Text(
    "A query whose mask forbids all keys gets {got:.4g} ({kind} mask). It must get zeros."
)
OTHERS = Text(
    "A query whose mask forbids all keys spoils another row: at {index} the output is {got:.4g}."
)
ALL_HIDDEN = Text("If every position is hidden, the output is NaN.")
BOOL = Text("bool")
FLOAT = Text("float")
NOT_FINITE = Text(
    "A query whose mask forbids all keys makes the gradient of {name} {got:.4g} at {index}; "
    "training breaks at the first such row."
)
NOT_STILL = Text(
    "A query whose mask forbids all keys gets the gradient {got:.4g} at {index}; its output "
    "does not depend on it, so the gradient must be 0."
)
LEAKS = Text(
    "{bad} in the {name} of a key that {mask} forbids reaches query {i}: a weight of 0 times "
    "{bad} is NaN. Memory behind a mask must hold finite numbers."
)
CHANGES = Text(
    "{bad} in the {name} of a key that {mask} forbids changes what query {i} gets, from "
    "{expected:.4g} to {got:.4g}: the row is taken for an empty one, perhaps by nan_to_num."
)

YES_OR_NO = Text("It takes a float mask for a yes and no, so its least number cannot be tested.")
FORBIDS = Text(
    "A row whose float mask is {least:.4g} throughout, the least number of {dtype}, gets zeros, "
    "expected the mean of the values: only -inf forbids."
)
OVERFLOWS = Text(
    "A row whose float mask is {least:.4g} throughout, the least number of {dtype}, gets "
    "{got:.4g}, expected the mean of the values: the sum with the scores overflows."
)
NOT_THE_MEAN = Text(
    "A row whose float mask is {least:.4g} throughout, the least number of {dtype}, gets "
    "{got:.4g} at {index}, expected {expected:.4g}, the mean of the values."
)

OF_THE_SINK = Text(
    "It has an attention sink, which takes the weight of a row whose keys all have the least "
    "number."
)


@rule(
    statement=Text(
        "A row masked by the least finite number, not by -inf, gives the mean of the values."
    ),
    formula=r"b_{ij} = b \ll 0 \;\forall j \implies o_i = \tfrac1m \sum_j v_j",
    page="foundations/mask-traps",
    needs=("attn_mask",),
    may_crash=True,
    follows=OF_MASKS,
)
def lowest_mask(trial: Trial, case: Case) -> Finding | None:
    if yes_or_no(trial, case):
        return Finding(Verdict.NOT_CLAIMED, YES_OR_NO)
    if SINKS.keys() & trial.subject.given.keys():
        return Finding(Verdict.NOT_CLAIMED, OF_THE_SINK)
    allowed, blind = _masked_row(trial, case)
    least = torch.finfo(trial.dtype).min
    bias = torch.zeros(allowed.shape, dtype=torch.float64).masked_fill(~allowed, least)
    output = trial.call(case.query, case.key, case.value, attn_mask=bias)
    got = output[blind]
    right = trial.truth(case.query, case.key, case.value)
    # float16 has digits left beside its least number: there the scores may still be seen.
    mean = (trial.shares(case) @ trial.to_double(case.value))[blind]
    plain, allowance = (x[blind] for x in (right.output, right.allowance))
    wrong = miss(got, mean, allowance)
    if wrong is None or (trial.dtype == torch.float16 and miss(got, plain, allowance) is None):
        return None
    values = {"least": least, "dtype": str(trial.dtype).removeprefix("torch.")}
    if not got.isfinite().all():
        return trial.unsafe_failure(OVERFLOWS, mean, got=float(got[~got.isfinite()][0]), **values)
    if not got.any():
        return trial.unsafe_failure(FORBIDS, mean, **values)
    return trial.failure(
        *(NOT_THE_MEAN, mean),
        index=list(wrong.place),
        got=wrong.got,
        expected=wrong.expected,
        **values,
    )


def _masked_row(trial: Trial, case: Case) -> tuple[Tensor, tuple[slice, ...]]:
    """A bool mask that forbids everything to one query, and nothing to others; and where that is.

    To all queries of the last sample, where the function's masks are the same for all queries.
    """
    (b, _, n), m = case.query.shape[:3], case.key.shape[-2]
    if -2 in trial.subject.reading.same_along:
        samples = (torch.arange(b) < b - 1)[:, None, None, None]
        return samples.expand(b, 1, 1, m).contiguous(), (slice(b - 1, b),)
    row = n // 2
    rows = (torch.arange(n) != row)[:, None].expand(n, m).contiguous()
    return rows, (slice(None), slice(None), slice(row, row + 1))


@rule(
    statement=Text("A query that may attend to nothing gets zeros."),
    formula=r"A_i = \varnothing \implies o_i = 0",
    page="foundations/mask-traps",
    needs=("attn_mask",),
    follows=OF_MASKS,
    holds_of="any",
)
def fully_masked(trial: Trial, case: Case) -> Finding | None:
    if not trial.subject.apart:
        n = case.query.shape[-2]
        nothing = torch.zeros(n, n, dtype=torch.bool)
        output = trial.call(case.query, case.key, case.value, attn_mask=nothing)
        return trial.unsafe_failure(ALL_HIDDEN) if output.isnan().any() else None
    allowed, blind = _masked_row(trial, case)
    bias = torch.zeros(allowed.shape, dtype=torch.float64).masked_fill(~allowed, -math.inf)
    zeros = torch.zeros_like(case.value[blind])
    declined = []
    kinds = [(BOOL, allowed), (FLOAT, bias)]
    added = trial.subject.reading.mask_means == "added"  # so it is never given bools
    asked = kinds[1:] if added else kinds[: 2 - yes_or_no(trial, case)]
    for kind, mask in asked:
        try:
            output = trial.call(case.query, case.key, case.value, attn_mask=mask)
        except Raised as raised:
            declined.append(raised)
            continue
        got = output[blind]
        if bool((got != 0).any()):
            failure = trial.unsafe_failure(NOT_ZERO, zeros, kind=kind, got=float(got[got != 0][0]))
            return _explain_row(trial, case, failure, got, blind)
        strange = ~output.isfinite()
        if bool(strange.any()):
            place = torch.nonzero(strange)[0].tolist()
            return trial.unsafe_failure(OTHERS, index=place, got=float(output[tuple(place)]))
    if len(declined) == len(asked):
        raise declined[0]
    return None


def _explain_row(
    trial: Trial, case: Case, failure: Finding, got: Tensor, blind: tuple[slice, ...]
) -> Finding:
    """Says where a row that is not zero comes from."""
    plain = trial.call(case.query, case.key, case.value)[blind]
    mean = trial.to_double(case.value).mean(-2, keepdim=True).expand_as(case.value)[blind]
    if bool(got.isnan().any()):
        text = NAN
    elif bool(((got - mean).abs() <= 2e-2).all()):
        text = MEAN
    elif bool(((got - plain).abs() <= 2e-2).all()):
        text = UNMASKED
    else:
        text = failure.text
    values = dict(failure.values)
    kind, reading = values["kind"], trial.subject.reading
    name = reading.names.get("attn_mask", "attn_mask")
    name = reading.numbers if kind is FLOAT and reading.numbers else name
    means = reading.mask_means if kind is BOOL else "added"
    return failure.reword(text, **values, none=_NONE[means].format(name))


# The rows that may attend to nothing, by what a mask says.
_NONE = {
    "allowed": "~{}.any(-1, keepdim=True)",
    "forbidden": "{}.all(-1, keepdim=True)",
    "ones": "({} == 0).all(-1, keepdim=True)",
    "added": "({} == -math.inf).all(-1, keepdim=True)",
}


@rule(
    statement=Text("A query that may attend to nothing sends no gradient, and spoils no other."),
    formula=r"A_i = \varnothing \implies \partial L / \partial q_i = 0",
    page="foundations/mask-traps",
    needs=("attn_mask",),
    follows=(*OF_MASKS, *("gradients", "fully_masked")),
    asked_of=("function",),
)
def fully_masked_gradient(trial: Trial, case: Case) -> Finding | None:
    mask, _ = _masked_row(trial, case)
    found = trial.gradients(case, torch.ones_like, attn_mask=mask)
    for name, gradient in found.items():
        if gradient is None:
            continue  # the property `gradients` tells of it
        for text, bad in (
            (NOT_FINITE, ~gradient.isfinite()),
            (NOT_STILL, (gradient != 0) & ~mask.any(-1, keepdim=True)),
        ):
            if bool(bad.any()) and (text is NOT_FINITE or name == "query"):
                place = torch.nonzero(bad)[0].tolist()
                return trial.unsafe_failure(
                    text, name=name, index=place, got=float(gradient[tuple(place)])
                )
    return None


@rule(
    statement=Text("NaN and inf behind a mask stay there."),
    formula=r"j \notin A_i \implies o_i \text{ does not depend on } k_j, v_j",
    page="foundations/mask-traps",
    may_refuse=True,
    follows=(*OF_MASKS, *OF_CAUSALITY),
    holds_of="any",
)
def nan_behind_mask(trial: Trial, case: Case) -> Finding | None:
    n, m = case.query.shape[-2], case.key.shape[-2]
    mask = (torch.arange(m) < max(1, m - 1)).expand(n, m).contiguous()  # hides the last key
    ways: dict[str, dict[str, Any]] = {
        "attn_mask": {"attn_mask": mask},
        "is_causal": {"is_causal": True},
    }
    offered = [option for option in ways if trial.offers(option)]
    if not offered:
        return trial.not_claimed("attn_mask", "is_causal")
    # The blocks of a window start somewhere: of two keys one is not the first of its block.
    hidden = (1, 2) if trial.subject.reading.formula.window is not None and n > 2 else (1,)
    lasts = {"attn_mask": (1,), "is_causal": hidden}
    asked = offered if trial.subject.apart else offered[:1]
    for option, last in [(each, last) for each in asked for last in lasts[each]]:
        # Those that do not see that key.
        rows = n - last * (option != "attn_mask" or not trial.subject.apart)
        clean = trial.call(case.query, case.key, case.value, **ways[option])[..., :rows, :]
        for bad, number in {"NaN": math.nan, "inf": math.inf}.items() if m > 1 else ():
            for name in ("value", "key"):
                spoilt = {"key": case.key.clone(), "value": case.value.clone()}
                spoilt[name][..., -last, :] = number
                query = case.query if trial.subject.apart else spoilt[name]
                output = trial.call(query, *spoilt.values(), **ways[option])[..., :rows, :]
                found = miss(output, clean, 1e-2 * (1 + clean.abs()))
                if found is not None:
                    text = CHANGES if math.isfinite(found.got) else LEAKS
                    about = {"bad": bad, "name": name, "mask": option, "i": found.place[-2]}
                    return trial.unsafe_failure(text, clean, **about, **found.values())
    return None
