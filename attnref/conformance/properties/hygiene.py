"""What a function must not do beside computing: change, remember, ignore, waste."""

import itertools
import math
import time
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnref.bench.memory import peak_bytes
from attnref.conformance.case import Case
from attnref.conformance.comparison import miss
from attnref.conformance.properties.masks import some_bias, some_mask
from attnref.conformance.property import OF_CAUSALITY, OF_MASKS, OF_NUMBERS, rule
from attnref.conformance.trial import APART, Raised, Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

CHANGED = Text(
    "It changes its input {name} in place. Write {name} = {name} * … instead of {name} *= …."
)
STRIDES = Text(
    "For inputs that are not contiguous ({how}) the output at {index} is {got:.6g}, for their "
    "copies {expected:.6g}: the memory is read as if it were contiguous."
)
TRANSPOSED = Text("transposed views")
SLICED = Text("every second column")
EXPANDED = Text("one head expanded to all")
DIFFERS = Text(
    "Called twice with the same inputs, and with others in between, it answers {expected:.9g} "
    "and {got:.9g} at {index}: it keeps something between calls, or draws random numbers. Fix "
    "this first; what other properties say may come from it."
)
REMEMBERED = Text(
    "Called with new numbers in the same tensors it answers {got:.6g} at {index}, expected "
    "{expected:.6g}: it keeps something of an earlier call. Fix this first; what other properties "
    "say may come from it."
)
OVERWRITTEN = Text(
    "The next call overwrites the result of the one before: at {index} it goes from "
    "{expected:.9g} to {got:.9g}. Return a new tensor in each call."
)
SILENT = Text("{option} is accepted but changes nothing. Obey it, or raise an error.")
SILENT_BESIDE = Text(
    "{option} changes nothing once {other} is given. Obey both, or raise an error."
)
UNASKED = Text(
    "No option that was tested is accepted and then ignored. Not tested, and so left at their "
    "defaults: {names}."
)
GROWS = Text(
    "From n = {few} to n = {many} the peak memory of a call grows from {least} to {most} bytes, "
    "as n^{power:.2f}: {kind}."
)
LINEAR = Text("less than the n·m weights take")
QUADRATIC = Text("at least as much as the n·m weights take")
UNMEASURED = Text("Not measured: {error}")
UNSEEN = Text("what it allocates is out of the profiler's sight, in another thread perhaps.")
TOO_SLOW = Text("Not measured: a call with n = {few} takes {seconds:.1f} s.")


@rule(
    statement=Text("The inputs are as they were after the call."),
    formula=r"(Q, K, V, M)_{\text{after}} = (Q, K, V, M)_{\text{before}}",
    page="foundations/matrix-form",
    follows=("shape", "determinism"),
    holds_of="any",
)
def inputs_unchanged(trial: Trial, case: Case) -> Finding | None:
    masks: list[Tensor | None] = [None]
    if trial.offers("attn_mask"):
        masks = [
            trial.restrict_mask(some_mask(case, (case.query.shape[-2],) * 2)),
            some_bias(trial, case),
        ]
    flags: list[dict[str, Any]] = [{}, {"is_causal": True}][: 1 + trial.offers("is_causal")]
    for flag, mask in itertools.product(flags, masks):
        tensors = {"query": case.query, "key": case.key, "value": case.value, "attn_mask": mask}
        given = {name: trial.cast(x) for name, x in tensors.items() if x is not None}
        before = {name: tensor.clone() for name, tensor in given.items()}
        query, key, value, *masked = given.values()
        options = flag | dict(zip(("attn_mask",), masked, strict=False))
        try:
            with torch.no_grad():
                trial.output(query, key, value, **options)
        except Raised:
            continue  # other properties tell whether a kind of mask is taken
        for name, tensor in given.items():
            if not torch.equal(tensor, before[name]):
                return trial.failure(CHANGED, name=name)
    return None


@rule(
    statement=Text("Inputs that are views, not contiguous in memory, give the same output."),
    formula=r"f(\text{view of } Q, K, V) = f(\text{copy of } Q, K, V)",
    page="foundations/multi-head",
    may_refuse=True,
    follows=OF_NUMBERS,
    holds_of="any",
)
def strided(trial: Trial, case: Case) -> Finding | None:
    tensors = [trial.cast(x) for x in (case.query, case.key, case.value)]
    ways = {
        TRANSPOSED: [x.transpose(1, 2).contiguous().transpose(1, 2) for x in tensors],
        SLICED: [torch.stack([x, x + 1], -1).flatten(-2)[..., ::2] for x in tensors],
        EXPANDED: [x[:, :1].expand_as(x) for x in tensors],
    }
    for how, views in ways.items():
        copies = [view.contiguous() for view in views]
        allowance = trial.tolerance(*(copy.double().cpu() for copy in copies))
        with torch.no_grad():
            expected = trial.output(*copies).double().cpu()
            output = trial.output(*views).double().cpu()
        found = miss(output, expected, 2 * allowance)
        if found is not None:
            return trial.failure(STRIDES, expected, how=how, **found.values())
    return None


@rule(
    statement=Text("The same inputs give the same output, bit by bit."),
    formula=r"f(Q, K, V) = f(Q, K, V)",
    page="foundations/dropout",
    follows=("shape",),
    holds_of="any",
)
def determinism(trial: Trial, case: Case) -> Finding | None:
    first = trial.call(case.query, case.key, case.value)
    trial.call(case.key.flip(-1), case.value.flip(-2), case.query)
    found = miss(trial.call(case.query, case.key, case.value), first, 0.0)
    if found is not None:
        return trial.failure(DIFFERS, first, **found.values())
    return _check_buffers(trial, case)


def _check_buffers(trial: Trial, case: Case) -> Finding | None:
    """Whether one call leaves the result of another alone, and the other one its own."""
    query, key, value = (trial.cast(x) for x in (case.query, case.key, case.value))
    new = Case(case.query, case.key.flip(-2, -1), case.value.flip(-1), case.seed)
    with torch.no_grad():
        kept = trial.output(query, key, value)
        before = kept.double().cpu().clone()
        key.copy_(new.key)
        value.copy_(new.value)
        output = trial.output(query, key, value).double().cpu()
    found = miss(kept.double().cpu(), before, 0.0)
    if found is not None:
        return trial.failure(OVERWRITTEN, before, **found.values())
    if trial.subject.reading.other is not None:
        return None
    right = trial.truth(new.query, new.key, new.value)
    found = miss(output, right.output, right.allowance)
    if found is None or not trial.is_right(case):
        return None  # what is never right is the matter of other properties
    return trial.failure(REMEMBERED, right.output, **found.values())


@rule(
    statement=Text("No option is accepted and then ignored, alone or beside another."),
    formula=r"f(Q, K, V, a) \ne f(Q, K, V), \quad f(Q, K, V, a, b) \ne f(Q, K, V, b)",
    page="foundations/mask-traps",
    follows=(
        *(*OF_MASKS, *OF_CAUSALITY, "mask_with_causal", "sink_share", "lengths_of_keys"),
        *("softcap_order", "window_width", "window_lengths"),
    ),
    holds_of="any",
)
def silent_arguments(trial: Trial, case: Case) -> Finding | None:
    mask = trial.restrict_mask(some_mask(case, (case.query.shape[-2], case.key.shape[-2])))
    # The first may be what the function does by itself; then the second is not.
    asked: dict[str, tuple[Any, ...]] = {
        "attn_mask": (mask,),
        "is_causal": (True,),
        "scale": (1.0, 0.3),
        "dropout_p": (0.5,),
        "softcap": (0.5, 1.0),
        "window": (3, 2),
        "sink": (torch.linspace(-1.0, 1.0, case.query.shape[1], dtype=torch.float64),),
        "key_lengths": (torch.arange(case.key.shape[0]) + max(1, case.key.shape[-2] // 2),),
    }
    plain = _answer(trial, case)
    options, alone = {}, {}
    for name, values in asked.items():
        if not trial.offers(name) or (name == "is_causal" and trial.subject.always_causal):
            continue
        for value in values:
            alone[name], options[name] = _answer(trial, case, **{name: value}), value
            if not _is_close(alone[name], plain):
                break
        else:
            return trial.failure(SILENT, option=name)
    for name, draw in trial.subject.extras.items():
        if draw.axes == "bkde":  # a first state, which is zeros else
            state = draw._replace(kind="normal").tensor(case.query, case.key)
            if _is_close(_answer(trial, case, **{name: state}), plain):
                return trial.failure(SILENT, option=name)
    flags = {name: each for name, each in trial.subject.defaults.items() if isinstance(each, bool)}
    for name in (each for each in flags if "norm" in each):  # of queries that are longer than 1
        if _is_close(_answer(trial, case, **{name: not flags[name]}), plain):
            return trial.failure(SILENT, option=name)
    for name, value in options.items():
        for other, its in options.items():
            # A window may be causal by itself, and what is dropped differs from call to call.
            if name == other or other == "dropout_p" or (name, other) == _IMPLIED:
                continue
            both = _answer(trial, case, **{name: value, other: its})
            if _is_close(both, alone[other]):
                return trial.failure(SILENT_BESIDE, option=name, other=other)
    unasked = trial.subject.default_parameters()
    return Finding(Verdict.PASS, UNASKED, {"names": ", ".join(unasked)}) if unasked else None


_IMPLIED = ("is_causal", "window")


def _answer(trial: Trial, case: Case, **options: Any) -> Tensor | None:
    """The output, or None where the options are declined."""
    try:
        return trial.call(case.query, case.key, case.value, **options)
    except Raised:
        return None


def _is_close(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether they differ no more than two ways of computing the same in half precision do."""
    if one is None or other is None:
        return False
    return bool(((one - other).abs() <= 1e-4 * (1 + other.abs())).all())


@rule(
    statement=Text("How its memory grows with the length; reported, not judged."),
    formula=r"O(n \, m) \text{ for all weights at once}, \quad O(n) \text{ block by block}",
    page="complexity/memory",
    judged=False,
    follows=("shape",),
    holds_of="any",
    asked_of=("function",),
)
def memory_growth(trial: Trial, case: Case) -> Finding | None:
    if not trial.subject.apart:
        return Finding(Verdict.NOT_ASKED, APART)
    peaks: dict[int, int] = {}
    seconds = 0.0
    for n, patience in _LENGTHS.items():
        if seconds > patience:
            break
        inputs = [trial.cast(torch.zeros(1, 1, n, case.query.shape[-1])) for _ in range(3)]
        try:
            seconds = _work(trial, inputs)
            if seconds > min(_LENGTHS.values()):
                seconds = min(seconds, _work(trial, inputs))  # threads that wait work too
            peaks[n] = peak_bytes(partial(trial.output, *inputs), trial.device)
        except Raised as raised:
            error = f"{type(raised.error).__name__}: {raised.error}"
            return Finding(Verdict.NOT_CLAIMED, UNMEASURED, {"error": error})
    if len(peaks) < 2:
        slow = {"few": min(_LENGTHS), "seconds": seconds}
        return Finding(Verdict.NOT_CLAIMED, TOO_SLOW, slow)
    *_, few, many = peaks
    if not (peaks[few] and peaks[many]):  # the output alone takes memory
        return Finding(Verdict.NOT_CLAIMED, UNMEASURED, {"error": UNSEEN})
    power = math.log(peaks[many] / peaks[few], many / few)
    kind = QUADRATIC if peaks[many] >= many * many * trial.dtype.itemsize else LINEAR
    values = {"few": few, "many": many, "least": peaks[few], "most": peaks[many]}
    return Finding(Verdict.PASS, GROWS, {**values, "power": power, "kind": kind})


def _work(trial: Trial, inputs: list[Tensor]) -> float:
    """Seconds of the processor for a call, not of the clock: others may use the machine."""
    start = time.process_time()
    trial.output(*inputs)
    return time.process_time() - start


# Each with the seconds of work that a call of the length before may take. One four times as long
# takes 16 times as much, and with the profiler, which notes each operation of a loop, far more.
_LENGTHS = {128: math.inf, 512: 0.1, 2048: 0.01}
