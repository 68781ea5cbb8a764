"""Scores that a softcap bounds, and where in the row of steps it comes."""

import math
from typing import Any

import torch

from attnref.conformance.case import Case
from attnref.conformance.comparison import argmax_index, miss
from attnref.conformance.properties.masks import some_bias, some_mask
from attnref.conformance.properties.scaling import effective_scale
from attnref.conformance.property import OF_MASKS, rule
from attnref.conformance.trial import Trial
from attnref.conformance.verdict import Finding
from attnref.text import Text

IGNORED = Text("softcap={cap} is accepted but ignored.")
AFTER_MASK = Text(
    "softcap={cap} is applied after the mask, so that -inf becomes -{cap}: query {i} gives key "
    "{j}, which is forbidden, the weight {weight:.3g}. Cap first, then mask."
)
BEFORE_SCALE = Text(
    "softcap={cap} is applied before the scores are scaled: softcap · tanh(q·k / softcap) / "
    "sqrt(d_k). Scale first."
)
CLAMPS = Text(
    "softcap={cap} cuts the scores off at ±{cap}; expected softcap · tanh(score / softcap)."
)
FLOATS = Text("softcap={cap} bounds the float mask together with the scores. Cap first, then add.")
OTHER = Text(
    "With softcap={cap} the output at {index} is {got:.6g}, expected {expected:.6g}, from "
    "softcap · tanh(score / softcap)."
)


@rule(
    statement=Text("softcap bounds the scores after they are scaled and before the mask."),
    formula=r"s_{ij} = \tau \tanh(c\, q_i \cdot k_j / \tau) + b_{ij}",
    page="scale/saturation",
    needs=("softcap",),
    follows=OF_MASKS,
)
def softcap_order(trial: Trial, case: Case) -> Finding | None:
    cap = 0.5
    allowed = trial.restrict_mask(some_mask(case, (case.query.shape[-2], case.key.shape[-2])))
    options: dict[str, Any] = {"softcap": cap}
    if trial.offers("attn_mask"):
        options["attn_mask"] = allowed
    elif trial.offers("is_causal"):
        options["is_causal"] = True
        allowed = torch.ones_like(allowed).tril()
    else:
        allowed = torch.ones_like(allowed)
    usual, slack = _usual_scale(trial, case)
    right = trial.truth(case.query, case.key, case.value, scale=usual, **options)
    output = trial.call(case.query, case.key, case.value, **options)
    found = miss(output, right.output, right.allowance + slack)
    if found is None:
        return _floats(trial, case, cap) if slack == 0.0 and trial.offers("attn_mask") else None
    failure = trial.failure(OTHER, right.output, cap=cap, **found.values())
    weights = trial.weights(case.query, case.key, **options)
    del options["softcap"]
    without = trial.weights(case.query, case.key, **options)
    leaks = (weights - without).masked_fill(allowed, 0.0)
    place = argmax_index(leaks)
    if float(leaks[place]) > 1e-3:
        values = {"i": place[-2], "j": place[-1], "weight": float(leaks[place])}
        return failure.reword(AFTER_MASK, cap=cap, **values)
    dots = trial.to_double(case.query) @ trial.to_double(case.key).mT
    for text, scores in {
        IGNORED: dots * usual,
        BEFORE_SCALE: cap * torch.tanh(dots / cap) * usual,
        CLAMPS: (dots * usual).clamp(-cap, cap),
    }.items():
        way = torch.softmax(scores.masked_fill(~allowed, -math.inf), -1)
        if bool(((weights - way).abs() < 1e-2).all()):
            return failure.reword(text, cap=cap)
    return failure


def _floats(trial: Trial, case: Case, cap: float) -> Finding | None:
    """The same under numbers to add, where they are obeyed alone; `float_mask` tells of that."""
    bias = some_bias(trial, case)
    inputs = case.query, case.key, case.value
    if not trial.is_right(case, attn_mask=bias):
        return None
    right = trial.truth(*inputs, softcap=cap, attn_mask=bias)
    output = trial.call(*inputs, softcap=cap, attn_mask=bias)
    found = miss(output, right.output, right.allowance)
    if found is None:
        return None
    failure = trial.failure(OTHER, right.output, cap=cap, **found.values())
    scores = (
        trial.to_double(case.query) @ trial.to_double(case.key).mT * case.query.shape[-1] ** -0.5
    )
    capped = cap * torch.tanh((scores + bias) / cap)
    way = torch.softmax(capped.masked_fill(bias == -math.inf, -math.inf), -1)
    same = (output - way @ trial.to_double(case.value)).abs() < 1e-2
    return failure.reword(FLOATS, cap=cap) if bool(same.all()) else failure


def _usual_scale(trial: Trial, case: Case) -> tuple[float, float]:
    """The factor without ``scale``, and what not to know it exactly adds to an allowance.

    A wrong one is the matter of the property `scale`.
    """
    right = trial.usual_scale(case.query.shape[-1])
    truth = trial.truth(case.query, case.key, case.value)
    output = trial.call(case.query, case.key, case.value)
    if miss(output, truth.output, truth.allowance) is None:
        return right, 0.0
    fit = effective_scale(trial, case)
    return (fit.factor, 1e-2) if fit.good else (right, 0.0)
