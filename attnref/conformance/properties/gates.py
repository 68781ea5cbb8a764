"""The gates of a recurrence at their ends: nothing written, all forgotten, what was stored."""

import math
import time
from typing import Any

import torch
from torch import Tensor

from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss
from attnref.conformance.property import OF_NUMBERS, rule
from attnref.conformance.recurrence import Recurrence
from attnref.conformance.trial import NOTHING_SUCH, Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

NOTHING = Text("{rate} = 0 throughout, which writes nothing")
PADDING = Text("{rate} = 0 and no decay at the last positions, which leave the state as it is")
FORGETS = Text("a {decay} that forgets all at position {at}")
STEADY = Text("no decay, which keeps all that is written")
STORED = Text("orthonormal keys and {rate} = 1, where a key returns what is stored for it")
ZEROS = Text("keys of zeros at the first positions, which leave the state empty")
OTHER = Text("With {how}, the output at {index} is {got:.6g}, expected {expected:.6g}.")
LONG = Text(
    "In bfloat16, for n = {n}, the outputs err by {error:.2g} of their norm, expected less than "
    "{bound:.2g}: is the state kept in float32?"
)

_LONG = 8192
_PATIENCE = 2.0  # seconds that such a call may take
_BOUND = 0.05


@rule(
    statement=Text(
        "A recurrence obeys its gates at their ends, and over long sequences in half precision."
    ),
    formula=r"\beta = 0 \implies S_t = a_t S_{t-1}, \quad a_t = 0 \implies S_t = \beta_t k_t v_t'",
    page="variants/gated-delta",
    holds_of="formula",
    follows=(*OF_NUMBERS, "oracle"),
)
def gates(trial: Trial, case: Case) -> Finding | None:
    reference = trial.subject.reference
    if not isinstance(reference, Recurrence) or not reference.gates:
        return Finding(Verdict.NOT_CLAIMED, NOTHING_SUCH)
    if not trial.is_right(case):
        return None  # `oracle` tells of it
    for how, changed, options in _ends(trial, case, reference):
        inputs = (changed.query, changed.key, changed.value)
        try:
            output = trial.call(*inputs, **options)
        except Raised:
            continue
        right = trial.truth(*inputs, **options)
        found = miss(output, right.output, right.allowance)
        if found is not None:
            # Differences of sums of logarithms give NaN there, as most programs by chunks do.
            loud = how.english == FORGETS.english and math.isnan(found.got)
            fails = trial.unsafe_failure if loud else trial.failure
            return fails(OTHER, right.output, how=how, **found.values())
    return _check_long(trial, case)


def _ends(
    trial: Trial, case: Case, reference: Recurrence
) -> list[tuple[Text, Case, dict[str, Any]]]:
    names = reference.gates
    drawn = trial.subject_extras(case.query, case.key)
    rate = names.get("rate")
    kind = next((each for each in ("log_decay", "decay") if each in names), None)
    n = case.query.shape[-2]
    late = torch.arange(n) >= n - 2
    ways: list[tuple[Text, Case, dict[str, Any]]] = []

    def on(gate: Tensor, places: Tensor) -> Tensor:
        return places[:, None] if gate.ndim > 3 else places

    if rate is not None:
        none = torch.zeros_like(drawn[rate])
        ways.append((NOTHING.fill({"rate": rate}), case, {rate: none}))
        unit = torch.eye(max(n, case.key.shape[-1]), dtype=torch.float64)
        if n <= case.key.shape[-1]:
            key = unit[:n, : case.key.shape[-1]].expand_as(case.key).contiguous()
            kept = Case(key, key, case.value, case.seed)
            ways.append((STORED.fill({"rate": rate}), kept, {rate: torch.ones_like(drawn[rate])}))
    if kind is not None:
        decay = names[kind]
        gate = drawn[decay]
        nothing, all_ = (0.0, -torch.inf) if kind == "log_decay" else (1.0, 0.0)
        at = n // 2
        here = on(gate, torch.arange(n) == at)
        ways.append((STEADY, case, {decay: torch.full_like(gate, nothing)}))
        forgets = gate.masked_fill(here, all_)
        ways.append((FORGETS.fill({"decay": decay, "at": at}), case, {decay: forgets}))
        if rate is not None:
            padded = {
                rate: drawn[rate].masked_fill(on(drawn[rate], late), 0.0),
                decay: gate.masked_fill(on(gate, late), nothing),
            }
            ways.append((PADDING.fill({"rate": rate}), case, padded))
    empty = case.key * (torch.arange(n) > 1)[:, None]
    return [*ways, (ZEROS, Case(case.query, empty, case.value, case.seed), {})]


def _check_long(trial: Trial, case: Case) -> Finding | None:
    """Thousands of positions in bfloat16, where a call is not too slow for that."""
    half = Trial(trial.subject, torch.bfloat16, trial.device)
    seconds = 0.0
    for n in (256, _LONG):
        if seconds * _LONG / 256 > _PATIENCE:
            return None
        long = trial.draw(Sizes(batch=1, heads=1, n=n, d_k=case.query.shape[-1]), case.seed)
        inputs = (long.query, long.key, long.value)
        try:
            start = time.perf_counter()
            output = half.call(*inputs)
            seconds = time.perf_counter() - start
        except Raised:
            return None
    right = half.truth(*inputs).output
    error = float((output - right).norm() / right.norm())
    if error <= _BOUND:
        return None
    return half.failure(LONG, n=_LONG, error=error, bound=_BOUND)
