"""Where two runs of a model part: the first module, and the argument of attention behind it."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnref.text import Refusal, Text
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
    run,
)

__all__ = ["compare"]

_ROUNDINGS = 64.0  # of the largest number of a token: what two orders of sums may differ by
WIDTH = 72  # letters of a line

SAME = Text("None of {modules} modules differs by more than rounding.")
PARTS = Text(
    "The runs diverge at {name} ({kind}): its outputs differ by {share:.2g} of their largest "
    "value; rounding explains {rounding:.1g}."
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
    "Its attention gets the same tensors and arguments: {one} and {other} compute differently."
)
EARLY = Text(
    "No attention ran before it, so the cause is in the inputs of the model or in its positions."
)


@dataclass(frozen=True)
class Comparison:
    """Where two runs part.

    Attributes:
        name, kind: the first module whose outputs differ by more than rounding; empty if none.
        ratio: how much, in roundings of its dtype; the largest of all if none does.
        said: why, a sentence each.

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

    @property
    def same(self) -> bool:
        """Whether nothing differs by more than rounding."""
        return not self.name

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
        inputs: the arguments of a forward pass: by name, in order, or a tensor. For the two ways
            by name, with ``input_ids`` or ``inputs_embeds`` of ``(b, n)`` tokens, and
            ``attention_mask`` where some are padding.

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
            "model: it is in training mode, where dropout alone differs. Call model.eval()."
        )
    given = by_name(model, inputs)
    if other in WAYS:
        check_way(model, given, str(other))
    one = run(model, [given])
    padding = given.get("attention_mask")
    if isinstance(other, nn.Module):
        return _find(one, [run(other, [given])], None, padding)
    if other == "alone":
        runs, places = alone(model, given)
        return _find(one, runs, places, padding)
    if other == "cache":
        return _find(one, [cached(model, given)], None, padding)
    with implementation(model, other):
        return _find(one, [run(model, [given])], None, padding)


def _find(
    one: Trace, others: list[Trace], places: list[Tensor] | None, padding: Tensor | None
) -> Comparison:
    shared = [name for name in one.outputs if all(name in each.outputs for each in others)]
    if not shared:
        raise Refusal(
            "other: no module of it has the name of one of the first model, so that none can be "
            "compared."
        )
    kept = None if padding is None else padding.bool().cpu()
    largest, agreed = 0.0, 0
    for name in shared:
        found = _differ(one.outputs[name], [each.outputs[name] for each in others], places, kept)
        if found is None:
            continue
        ratio, sample, position = found
        largest = max(largest, ratio)
        if ratio <= _ROUNDINGS:
            agreed += 1
            continue
        kind = one.outputs[name][0].kind
        unit = one.outputs[name][0].unit
        about = {"name": name or kind, "kind": kind}
        share, rounding = ratio * unit, _ROUNDINGS * unit
        said = [PARTS.fill({**about, "share": share, "rounding": rounding})]
        if position is not None:
            said.append(TOKEN.fill({"sample": sample, "position": position}))
        said.append(BEFORE.fill({"count": agreed}))
        said += _why(name, one, others, places, kept)
        return Comparison(name or kind, kind, ratio, tuple(said))
    return Comparison("", "", largest, (SAME.fill({"modules": agreed}),))


def _join(parts: list[Tensor]) -> Tensor:
    """The tokens of several calls, one after the other."""
    same = all(each.dim() == 3 and each.shape[::2] == parts[0].shape[::2] for each in parts)
    return torch.cat(parts, 1) if same and len(parts) > 1 else parts[0]


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
            if kept is not None and ours.dim() == 3:
                if kept.shape != ours.shape[:2]:
                    return None  # padding differs in it, wherever that is
                where = kept[sample].nonzero()[:, 0]
            if ours.dim() == 3:
                pairs.append((sample, ours[sample, where], other[sample, where], where))
            else:
                pairs.append((sample, ours[sample][None], other[sample][None], torch.tensor([0])))
        return pairs
    pairs = []
    for sample, (other, where) in enumerate(zip(theirs, places, strict=True)):
        if ours.dim() != 3 or other.dim() != 3 or other.shape[1] != len(where):
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
    if not all(each.tokens for each in (*ours, *(x for other in theirs for x in other))):
        # Tokens in another order, such as an expert's, are no outputs to be laid together.
        alone = places is None and kept is None and len(ours) == len(theirs[0]) == 1
        if not alone or ours[0].numbers.dim() > 2:
            return None
    mine = _join([each.numbers for each in ours])
    pairs = _align(mine, [_join([x.numbers for x in each]) for each in theirs], places, kept)
    if pairs is None:
        return None
    worst, first = 0.0, (0, 0)
    unit = max(each.unit for each in ours)
    for sample, one, other, where in pairs:
        # Where large numbers cancel, what is left is as wrong as they are.
        size = torch.maximum(one.abs().amax(), other.abs().amax()).clamp(min=1e-30)
        ratio = ((one - other).abs().amax(-1) / size / unit).nan_to_num(nan=float("inf"))
        ratio = ratio.masked_fill(one.isnan().any(-1) & other.isnan().any(-1), 0.0)
        if ratio.numel() and float(ratio.max()) > worst:
            if worst <= _ROUNDINGS:
                over = (ratio > _ROUNDINGS).double()
                first = (sample, int(where[int(over.argmax())]))
            worst = float(ratio.max())
    return worst, first[0], first[1] if mine.dim() == 3 else None


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
        ended = list(one.outputs)[: list(one.outputs).index(name)]
        return [] if any(each in one.calls for each in ended) else [EARLY]
    ours, theirs = one.calls[inside[0]], [each.calls[inside[0]] for each in others]
    parted = []
    for place, argument in enumerate(("query", "key", "value")):
        wrapped = [[Output("", x.tensors[place]) for x in each] for each in (ours, *theirs)]
        if argument != "query" and len(theirs[0]) > 1:  # a cache's keys were seen before
            wrapped = [[each[-1]] for each in wrapped]
        found = _differ(wrapped[0], wrapped[1:], places, kept)
        if found is not None and found[0] > _ROUNDINGS:
            parted.append(argument)
    if parted:
        return [INPUTS.fill({"names": ", ".join(parted)})]
    said = []
    for argument, value in ours[0].arguments.items():
        other = theirs[0][0].arguments[argument]
        if value != other and argument != "mask":
            about = {"name": argument, "one": str(value), "other": str(other)}
            said.append(ARGUMENTS.fill(about))
    said += _masks_differ(ours, theirs, places, kept)
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
