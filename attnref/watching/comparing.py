"""Where two runs of a model part: the first module, and the argument of attention behind it."""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnref.text import Refusal, Text
from attnref.watching.places import ATTENTION
from attnref.watching.runs import (
    WAYS,
    Asked,
    Output,
    Trace,
    alone,
    by_name,
    cached,
    check_way,
    implementation,
    padding_of,
    run,
)

__all__ = ["compare"]

# Of the largest number: what two orders of sums may differ by. Half precision adds in float32.
_ROUNDINGS, _HALF = 64.0, 16.0
WIDTH = 72  # letters of a line

NOTHING = Text(
    "No module could be compared: none returned tensors of the same shape in both runs, with "
    "samples and tokens as their first axes."
)
SAME = Text("None of {modules} modules differs by more than rounding.")
PARTS = Text(
    "The runs diverge at {name} ({kind}): its outputs differ by {share:.2g} times their largest "
    "value; rounding explains only {rounding:.1g}."
)
TOKEN = Text("The first difference is in sample {sample}, position {position}.")
BEFORE = Text("Modules before it that agree: {count}.")
INPUTS = Text("The inputs of its attention already differ: {names}.")
ARGUMENTS = Text(
    "Its attention is called with different values of {name}: {one} in the first run, {other} in "
    "the second."
)
MASKS = Text(
    "Its attention is called with different masks: in sample {sample}, query {i} sees key {j} "
    "{where}."
)
HERE, THERE = Text("only in the first run"), Text("only in the second run")
ALIKE = Text(
    "Its attention gets the same tensors and arguments, so the difference arises in its "
    "computation (kernels: {one}, {other})."
)
EARLY = Text(
    "No attention ran before it, so the cause is in the inputs of the model or in the positions."
)
PARAMETERS = Text("Its own parameters differ between the two models.")
UNSEEN = Text("It belongs to {kind}, whose calls of attention are not seen.")
DROPS = Text(
    "Its attention drops weights at random (p = {share:.2g}), so that two runs differ anyway. Set "
    "its dropout to 0."
)


@dataclass(frozen=True)
class Comparison:
    """Where two runs part.

    Attributes:
        name, kind: the first module whose outputs differ by more than rounding; empty if none.
        ratio: how much, in roundings of its dtype; the largest of all if none does.
        said: why, a sentence each.
        compared: how many modules could be compared up to that one.

    Examples:
        >>> one, other = (nn.Linear(2, 2).eval() for _ in range(2))
        >>> _ = other.load_state_dict({"weight": one.weight + 1, "bias": one.bias})
        >>> found = compare(one, other, torch.ones(1, 3, 2))
        >>> found.same, found.name
        (False, 'Linear')
    """

    name: str
    kind: str
    ratio: float
    said: tuple[Text, ...]
    compared: int = 0

    @property
    def same(self) -> bool:
        """Whether something was compared, and nothing differs by more than rounding."""
        return not self.name and self.compared > 0

    def text(self, lang: str = "en") -> str:
        """It in words."""
        return " ".join(each.say(lang) for each in self.said)

    def __str__(self) -> str:
        return textwrap.fill(self.text(), WIDTH)


def compare(
    model: nn.Module, other: nn.Module | str, inputs: Mapping[str, Any] | Sequence[Any] | Tensor
) -> Comparison:
    """The first module in which two runs differ by more than rounding, and why.

    Args:
        model: as it is, in evaluation mode.
        other: another model with modules of the same names; or one way to run the same model:
            ``"alone"``, each sample of the batch by itself and without its padding; ``"cache"``,
            the first half in one pass and then token by token with the model's cache; or the name
            of an implementation of Transformers, ``"eager"``, ``"sdpa"``, ``"attnref"``, ….
        inputs: the arguments of a forward pass: by name, in order, or a tensor. The two ways
            divide ``input_ids``, ``inputs_embeds`` or the first tensor, ``(b, n)`` or ``(b, n,
            …)``; ``attention_mask`` or ``mask``, ``(b, n)``, says which are padding.

    Returns:
        The comparison; ``print`` it.

    Raises:
        Refusal: for a model in training mode, whose dropout differs anyway, for a way that it
            cannot be run in, or for models that share no names.

    Examples:
        >>> layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
        >>> x = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0))
        >>> compare(layer, layer, (x, x, x)).same
        True
    """
    models = [each for each in (model, other) if isinstance(each, nn.Module)]
    if any(each.training for each in models):
        raise Refusal(
            "model: it is in training mode, where dropout alone makes two runs differ. Call "
            "model.eval()."
        )
    given = by_name(model, inputs)
    if other in WAYS:
        check_way(model, given, str(other))
    one = run(model, [given])
    padding = padding_of(given)
    if isinstance(other, nn.Module):
        return _find(one, [run(other, [given])], None, padding, _changed(model, other))
    if other == "alone":
        runs, places = alone(model, given)
        return _find(one, runs, places, padding)
    if other == "cache":
        return _find(one, [cached(model, given)], None, padding)
    with implementation(model, other):
        return _find(one, [run(model, [given])], None, padding)


def _changed(model: nn.Module, other: nn.Module) -> set[str]:
    """Modules of whose own parameters some differ, by name."""
    found, others = set(), dict(other.named_modules())
    for name, module in model.named_modules():
        if name in others:
            theirs = dict(others[name].named_parameters(recurse=False))
            for key, ours in module.named_parameters(recurse=False):
                if key in theirs and not torch.equal(ours.cpu(), theirs[key].cpu()):
                    found.add(name or type(module).__name__)
    return found


def _find(
    one: Trace,
    others: list[Trace],
    places: list[Tensor] | None,
    padding: Tensor | None,
    changed: Collection[str] = (),
) -> Comparison:
    shared = [name for name in one.outputs if all(name in each.outputs for each in others)]
    if not shared and all(each.outputs for each in (one, *others)):
        raise Refusal(
            "other: its modules share no name with those of the first model, so nothing can be "
            "compared."
        )
    largest, agreed = 0.0, 0
    for name in shared:
        found = _differ(one.outputs[name], [each.outputs[name] for each in others], places, padding)
        if found is None:
            continue
        ratio, sample, position = found
        largest = max(largest, ratio)
        unit = max(each.unit for each in one.outputs[name])
        if ratio <= _roundings(unit):
            agreed += 1
            continue
        kind = one.outputs[name][0].kind
        about = {"name": name or kind, "kind": kind}
        share, rounding = ratio * unit, _roundings(unit) * unit
        said = [PARTS.fill({**about, "share": share, "rounding": rounding})]
        if position is not None:
            said.append(TOKEN.fill({"sample": sample, "position": position}))
        said.append(BEFORE.fill({"count": agreed}))
        if name in changed:
            said.append(PARAMETERS)
        else:
            said += _why(name, one, others, places, padding)
        return Comparison(name or kind, kind, ratio, tuple(said), agreed + 1)
    if not agreed and places is None and padding is not None:
        return _find(one, others, None, None, changed)  # it says nothing of what is returned
    text = SAME.fill({"modules": agreed}) if agreed else NOTHING
    return Comparison("", "", largest, (text,), agreed)


def _roundings(unit: float) -> float:
    return _HALF if unit > torch.finfo(torch.float32).eps else _ROUNDINGS


def _joined(calls: list[Output]) -> Tensor | None:
    """The tokens of several calls, one after the other; of the first if they are others."""
    parts = [each.numbers for each in calls if each.numbers is not None]
    if len(parts) < len(calls):
        return None
    same = all(each.shape[::2] == parts[0].shape[::2] for each in parts)
    return torch.cat(parts, 1) if same else parts[0]


def _align(
    ours: Tensor, theirs: list[Tensor], places: list[Tensor] | None, kept: Tensor | None
) -> list[tuple[int, Tensor, Tensor, Tensor]] | None:
    """Pairs of samples: which, both ``(tokens, numbers)``, and where the tokens are."""
    if places is None:
        (other,) = theirs
        if ours.shape != other.shape:
            return None
        pairs = []
        for sample in range(len(ours)):
            where = torch.arange(ours.shape[1])
            if kept is not None:
                if kept.shape != ours.shape[:2]:
                    return None  # padding differs in it, wherever that is
                where = kept[sample].nonzero()[:, 0]
            pairs.append((sample, ours[sample, where], other[sample, where], where))
        return pairs
    pairs = []
    for sample, (other, where) in enumerate(zip(theirs, places, strict=True)):
        if other.shape[1] != len(where):
            return None
        same = ours.shape[2] == other.shape[2]  # weights have as many numbers as there are keys
        if not same or len(ours) <= sample or ours.shape[1] <= int(where.max()):
            return None
        pairs.append((sample, ours[sample, where], other[0], where))
    return pairs


def _differ(
    ours: list[Output],
    theirs: list[list[Output]],
    places: list[Tensor] | None,
    kept: Tensor | None,
) -> tuple[float, int, int | None] | None:
    """How much outputs differ, in roundings, and the first sample and position; None if unlike."""
    unit = max(each.unit for each in ours)
    mine, yours = _joined(ours), [_joined(each) for each in theirs]
    pairs = None
    if mine is not None and all(each is not None for each in yours):
        pairs = _align(mine, [x for x in yours if x is not None], places, kept)
    if pairs is None:
        # Without tokens to be laid together, the numbers are, of the same inputs.
        a, b = ours[0], theirs[0][0]
        same = len(ours) == len(theirs[0]) == 1 and a.shape == b.shape
        if places is None and kept is None and same and a.all is not None and b.all is not None:
            return float(_ratios(a.all[None], b.all[None], unit)), 0, None
        return None
    worst, first = 0.0, (0, 0)
    for sample, one, other, where in pairs:
        ratio = _ratios(one, other, unit)
        if ratio.numel() and float(ratio.max()) > worst:
            if worst <= _roundings(unit):
                over = (ratio > _roundings(unit)).double()
                first = (sample, int(where[int(over.argmax())]))
            worst = float(ratio.max())
    return worst, *first


def _ratios(one: Tensor, other: Tensor, unit: float) -> Tensor:
    """How much each row differs, in roundings of the largest number of all."""
    if not one.numel():
        return one.new_zeros(len(one))
    # Where large numbers cancel, what is left is as wrong as they are.
    size = torch.maximum(one.abs().amax(), other.abs().amax()).clamp(min=1e-30)
    ratio = ((one - other).abs().amax(-1) / size / unit).nan_to_num(nan=float("inf"))
    return ratio.masked_fill(one.isnan().any(-1) & other.isnan().any(-1), 0.0)


def _why(
    name: str, one: Trace, others: list[Trace], places: list[Tensor] | None, kept: Tensor | None
) -> list[Text]:
    """What the attention in that module was asked differently."""
    around = name.rpartition(".")[0]
    inside = [
        each
        for each in one.calls
        if around in (each, each.rpartition(".")[0]) or each.startswith(name)
        if all(each in other.calls for other in others)
    ]
    if not inside:
        holders = [each for each in one.outputs if each == name or name.startswith(f"{each}.")]
        kinds = [one.outputs[each][0].kind for each in holders if each]
        for kind in kinds:
            if ATTENTION.search(kind):
                return [UNSEEN.fill({"kind": kind})]
        ended = list(one.outputs)[: list(one.outputs).index(name)]
        return [] if any(each in one.calls for each in ended) else [EARLY]
    ours, theirs = one.calls[inside[0]], [each.calls[inside[0]] for each in others]
    parted = []
    for place, argument in enumerate(("query", "key", "value")):
        wrapped = [[Output("", x.tensors[place], x.unit) for x in each] for each in (ours, *theirs)]
        if argument != "query" and len(theirs[0]) > 1:  # a cache's keys were seen before
            wrapped = [[each[-1]] for each in wrapped]
        found = _differ(wrapped[0], wrapped[1:], places, kept)
        if found is not None and found[0] > _roundings(ours[0].unit):
            parted.append(argument)
    said = []
    for argument, value in ours[0].arguments.items():
        other = theirs[0][0].arguments[argument]
        if value != other and argument != "mask":
            about = {"name": argument, "one": str(value), "other": str(other)}
            said.append(ARGUMENTS.fill(about))
    said += _masks_differ(ours, theirs, places, kept)
    share = ours[0].arguments["dropout"]
    if not said and parted:
        said.append(INPUTS.fill({"names": ", ".join(parted)}))
    if not said and share:
        said.append(DROPS.fill({"share": share}))
    if not said:
        about = {"one": ours[0].function, "other": theirs[0][0].function}
        said.append(ALIKE.fill(about))
    return said


def _masks_differ(
    ours: list[Asked], theirs: list[list[Asked]], places: list[Tensor] | None, kept: Tensor | None
) -> list[Text]:
    """The first pair that one of them may see alone."""
    mine = ours[0].allowed
    if mine is None:
        return []
    m = mine.shape[-1]
    for number, calls in enumerate(theirs):
        start = 0
        for each in calls:
            if each.allowed is None:
                return []
            for sample in range(len(each.allowed)):
                own = number if places is not None else sample
                rows = torch.arange(start, start + each.allowed.shape[1])
                columns = torch.arange(min(m, each.allowed.shape[2]))
                if places is not None:
                    rows, columns = places[number], places[number]
                if own >= len(mine) or int(rows.max()) >= mine.shape[1]:
                    continue
                if places is not None:
                    # Real queries that see what is padding in the batch.
                    beyond = mine[own][rows].index_fill(1, columns, False)
                    if bool(beyond.any()):
                        i, j = beyond.nonzero()[0].tolist()
                        about = {"i": int(rows[i]), "j": j, "where": HERE, "sample": own}
                        return [MASKS.fill(about)]
                a = mine[own][rows][:, columns]
                b = each.allowed[sample][: len(rows), : len(columns)]
                real = torch.ones(len(rows), dtype=torch.bool)
                if kept is not None and kept.shape[1] > int(rows.max()):
                    real = kept[own][rows]
                apart = (a != b) & real[:, None]
                if bool(apart.any()):
                    i, j = apart.nonzero()[0].tolist()
                    where = HERE if bool(a[i, j]) else THERE
                    about = {"i": int(rows[i]), "j": int(columns[j]), "where": where, "sample": own}
                    return [MASKS.fill(about)]
            start += each.allowed.shape[1]
    return []
