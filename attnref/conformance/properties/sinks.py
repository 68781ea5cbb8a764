"""A sink: a number per head that joins the sum of each row's exponentials, and has no value."""

from typing import Any

import torch

from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss
from attnref.conformance.property import OF_MASKS, rule
from attnref.conformance.trial import Trial
from attnref.conformance.verdict import Finding
from attnref.text import Text

IGNORED = Text(
    "{name} is accepted but ignored: the weights of each row still sum to 1, expected less, for "
    "exp(sink) joins the sum of the exponentials."
)
NOT_EXP = Text("{name} joins the sum as it is, expected exp({name}): it is a score, and no weight.")
SCALED = Text(
    "{name} is multiplied by 1/sqrt(d_k) as the scores are. It is a score already: append it "
    "after scaling."
)
OTHER_HEAD = Text(
    "Each head gets the sink of another head: {name} has one number per query head, in order."
)
OTHER = Text(
    "With {name} {how} the output at {index} is {got:.6g}, expected {expected:.6g}, with "
    "exp(sink) in the sum of each row's exponentials."
)
OVERFLOWS = Text(
    "With {name} at {sink:g} the output at {index} is {got:.4g}, expected {expected:.4g}: the "
    "largest score that is subtracted must be that of the sink, too."
)
ALONE = Text("alone")
MASKED = Text("beside attn_mask")
CAUSAL = Text("beside is_causal")
SHARED = Text("and heads that share keys")


@rule(
    statement=Text(
        "A sink takes its share of each row's weight, under masks too, and cannot overflow."
    ),
    formula=r"p_{ij} = e^{s_{ij}} / (e^{\sigma_h} + \sum_l e^{s_{il}})",
    page="variants/sinks",
    needs=("sink",),
    follows=OF_MASKS,
)
def sink_share(trial: Trial, case: Case) -> Finding | None:
    heads, n = case.query.shape[1:3]
    inputs = (case.query, case.key, case.value)
    sink = torch.linspace(-1.0, 1.0, heads, dtype=torch.float64) + 0.25
    name = trial.subject.reading.names.get("sink", "sink")
    ways: list[tuple[Text, dict[str, Any]]] = [(ALONE, {})]
    # The second hides all keys of a first block of four.
    for seen in (torch.arange(n) != n // 2, torch.arange(n) > n // 2):
        mask = trial.restrict_mask(seen.expand(n, n))
        ways += [(MASKED, {"attn_mask": mask})] * trial.offers("attn_mask")
    ways += [(CAUSAL, {"is_causal": True})] * trial.offers("is_causal")
    for how, options in ways:
        if not trial.is_right(case, **options):
            continue  # another property tells of it
        output = trial.call(*inputs, sink=sink, **options)
        right = trial.truth(*inputs, sink=sink, **options)
        found = miss(output, right.output, right.allowance)
        if found is not None:
            failure = trial.failure(OTHER, right.output, name=name, how=how, **found.values())
            plain = trial.call(*inputs, **options)
            made = {
                IGNORED: plain,
                NOT_EXP: trial.truth(*inputs, sink=sink.clamp(min=1e-9).log(), **options).output,
                SCALED: trial.truth(
                    *inputs, sink=sink * trial.usual_scale(case.query.shape[-1]), **options
                ).output,
                OTHER_HEAD: trial.truth(*inputs, sink=sink.flip(0), **options).output,
            }
            for text, other in made.items():
                if bool(((output - other).abs() <= 1e-3).all()):
                    return failure.reword(text, name=name)
            return failure
    if trial.offers("enable_gqa"):
        found_shared = _check_shared(trial, case.seed, name)
        if found_shared is not None:
            return found_shared
    large = torch.full((heads,), 200.0, dtype=torch.float64)
    output = trial.call(*inputs, sink=large)
    right = trial.truth(*inputs, sink=large)
    found = miss(output, right.output, 1e-6)
    return found and trial.failure(OVERFLOWS, right.output, name=name, sink=200.0, **found.values())


def _check_shared(trial: Trial, seed: int, name: str) -> Finding | None:
    """Each of four query heads has its own sink, though two heads of keys serve them."""
    case = trial.draw(trial.fit(Sizes(heads=4, key_heads=2)), seed)
    inputs = (case.query, case.key, case.value)
    if not trial.is_right(case, enable_gqa=True):
        return None  # `grouped_queries` tells of it
    sink = torch.linspace(-1.0, 1.0, 4, dtype=torch.float64)
    output = trial.call(*inputs, sink=sink, enable_gqa=True)
    right = trial.truth(*inputs, sink=sink, enable_gqa=True)
    found = miss(output, right.output, right.allowance)
    values = {"name": name, "how": SHARED}
    return found and trial.failure(OTHER, right.output, **values, **found.values())
