"""Where two runs of a model part: the first module, and the argument of attention behind it."""

import contextlib
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attnref.text import Refusal, Text
from attnref.watching.call import Call
from attnref.watching.masks import allowed_of, recognise
from attnref.watching.patches import recording
from attnref.watching.recorder import Listener

__all__ = ["compare"]

WAYS = ("alone", "cache")
_NUMBERS = 64  # of a token that are compared, evenly taken
_ROUNDINGS = 64.0  # of the largest number of a token: what two orders of sums may differ by
WIDTH = 72  # letters of a line
_MOST = 2**21  # pairs whose masks are compared

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


@dataclass
class Output:
    """What a module returned: for each token the numbers that are compared."""

    kind: str
    numbers: Tensor  # (b, n, ≤ _NUMBERS), or without an axis of tokens
    unit: float = torch.finfo(torch.float32).eps
    tokens: bool = True  # whether it has both axes


@dataclass
class Heard:
    """A call of attention, with what is compared."""

    tensors: tuple[Tensor, Tensor, Tensor]  # (b, n, ≤ _NUMBERS)
    arguments: dict[str, object]
    allowed: Tensor | None  # (b, n, m)
    function: str


@dataclass
class Trace(Listener):
    """What the modules of a model returned in one run, in the order in which they ended."""

    outputs: dict[str, list[Output]] = field(default_factory=dict)
    calls: dict[str, list[Heard]] = field(default_factory=dict)
    sizes: tuple[int, int] | None = None  # samples and tokens of what runs

    def _on_leave(self, module: nn.Module, name: str, output: Any) -> None:
        """Keeps what it returned."""
        first = output
        while isinstance(first, tuple | list | Mapping) and len(first):
            first = next(iter(first.values())) if isinstance(first, Mapping) else first[0]
        if isinstance(first, Tensor) and first.is_floating_point() and first.dim() > 1:
            ordered = _by_token(first.detach(), self.sizes)
            if ordered is None:
                return
            numbers = _some(ordered)
            tokens = numbers.dim() == 3 and numbers.shape[:2] == self.sizes
            unit = torch.finfo(first.dtype).eps
            kept = Output(type(module).__name__, numbers, unit, tokens)
            self.outputs.setdefault(name, []).append(kept)

    def _on_call(self, call: Call) -> None:
        """Keeps what it was asked."""
        b, _, n, m = call.sizes
        tensors = tuple(_some(x.transpose(1, 2).flatten(2)) for x in call.inputs())
        allowed = None
        if b * n * m <= _MOST:
            seen = allowed_of(call, torch.arange(n))[:, :1]
            allowed = seen.expand(b, -1, -1, -1)[:, 0].cpu()
        arguments: dict[str, object] = {
            "scale": round(call.factor(), 9),
            "softcap": call.softcap,
            "dropout": call.dropout,
            "mask": str(recognise(call).pattern),
        }
        heard = Heard(tensors, arguments, allowed, call.kernel)  # type: ignore[arg-type]
        self.calls.setdefault(call.name, []).append(heard)


def _by_token(x: Tensor, sizes: tuple[int, int] | None) -> Tensor | None:
    """With an axis of samples and one of tokens first; None where it cannot be told which is."""
    if x.dim() < 4:
        return x
    if sizes is None or sizes[1] == 1 or x.shape[1] == x.shape[2]:
        return None
    return x.transpose(1, 2) if x.shape[2] == sizes[1] else x


def _some(x: Tensor) -> Tensor:
    """Of each token some of its numbers, evenly, in float32 beside the model's memory."""
    flat = x.detach().flatten(2) if x.dim() > 3 else x.detach()
    step = max(1, flat.shape[-1] // _NUMBERS)
    return flat[..., ::step].float().cpu().clone()


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
    given = _by_name(model, inputs)
    if other in WAYS:
        _check_way(model, given, str(other))
    one = _run(model, [given])
    padding = given.get("attention_mask")
    if isinstance(other, nn.Module):
        return _find(one, [_run(other, [given])], None, padding)
    if other == "alone":
        runs, places = _alone(model, given)
        return _find(one, runs, places, padding)
    if other == "cache":
        return _find(one, [_cached(model, given)], None, padding)
    with _implementation(model, other):
        return _find(one, [_run(model, [given])], None, padding)


def _by_name(
    model: nn.Module, inputs: Mapping[str, Any] | Sequence[Any] | Tensor
) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        return dict(inputs)
    given = inputs if isinstance(inputs, tuple | list) else (inputs,)
    return dict(inspect.signature(model.forward).bind(*given).arguments)


def _run(model: nn.Module, inputs: Sequence[Mapping[str, Any]]) -> Trace:
    trace = Trace()
    with torch.no_grad(), recording(trace, model):
        for given in inputs:
            trace.sizes = _sizes(given)
            model(**given)
    return trace


def _sizes(given: Mapping[str, Any]) -> tuple[int, int] | None:
    """Samples and tokens of the first input that has both."""
    for x in given.values():
        if isinstance(x, Tensor) and x.dim() > 1:
            return x.shape[0], x.shape[1]
    return None


def _check_way(model: nn.Module, given: Mapping[str, Any], way: str) -> None:
    _tokens(given, way)
    if way == "cache" and getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        raise Refusal(
            "model: it has an encoder and a decoder, and only a decoder has a cache. Compare "
            "model.get_decoder(), with encoder_hidden_states among its inputs."
        )


def _tokens(given: Mapping[str, Any], way: str) -> Tensor:
    for name in ("input_ids", "inputs_embeds"):
        found = given.get(name)
        if isinstance(found, Tensor):
            return found
    raise Refusal(
        "inputs: expected input_ids or inputs_embeds by name, got {names}. The way {way!r} divides "
        "them into samples or tokens.",
        names=", ".join(given) or "nothing",
        way=way,
    )


def _alone(model: nn.Module, given: Mapping[str, Any]) -> tuple[list[Trace], list[Tensor]]:
    """A run of each sample without its padding, and where its tokens were."""
    tokens = _tokens(given, "alone")
    b, n = tokens.shape[:2]
    mask = given.get("attention_mask")
    mask = torch.ones(b, n, dtype=torch.bool) if mask is None else mask.bool()
    runs, places = [], []
    for sample in range(b):
        kept = mask[sample].nonzero()[:, 0]
        own = {
            name: x[sample : sample + 1, kept]
            if isinstance(x, Tensor) and x.shape[:2] == (b, n)
            else x[sample : sample + 1]
            if isinstance(x, Tensor) and x.shape[:1] == (b,)
            else x
            for name, x in given.items()
        }
        runs.append(_run(model, [own]))
        places.append(kept)
    return runs, places


def _cached(model: nn.Module, given: Mapping[str, Any]) -> Trace:
    """The first half in one pass, then token by token."""
    tokens = _tokens(given, "cache")
    lengths = tokens.shape[:2]
    n = tokens.shape[1]
    trace, cache = Trace(), None
    ends = [*range(max(1, n // 2), n), n]
    start = 0
    with torch.no_grad(), recording(trace, model):
        for end in ends:
            own = {
                each: x[:, start:end] if isinstance(x, Tensor) and x.shape[:2] == lengths else x
                for each, x in given.items()
            }
            if isinstance(given.get("attention_mask"), Tensor):
                own["attention_mask"] = given["attention_mask"][:, :end]
            trace.sizes = _sizes(own)
            output = model(**own, past_key_values=cache, use_cache=True)
            cache, start = getattr(output, "past_key_values", None), end
            if cache is None:
                raise Refusal(
                    "model: it returns no past_key_values, so that it has no cache to use."
                )
    return trace


@contextlib.contextmanager
def _implementation(model: nn.Module, name: str) -> Iterator[None]:
    """A model of Transformers with that implementation for a while."""
    setter: Any = getattr(model, "set_attn_implementation", None)
    if setter is None:
        raise Refusal(
            "other: expected a model, one of {ways}, or for a model of Transformers the name of an "
            "implementation, got {got!r}.",
            ways=", ".join(WAYS),
            got=name,
        )
    before = model.config._attn_implementation  # type: ignore[union-attr]
    if name == "attnref":
        import attnref.integrations.transformers  # noqa: F401 (registers it)
    setter(name)
    try:
        yield
    finally:
        setter(before)


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
    ours: list[Heard], theirs: list[list[Heard]], places: list[Tensor] | None, kept: Tensor | None
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
