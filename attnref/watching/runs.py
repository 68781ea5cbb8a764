"""What a model does in one run, module by module, and the ways in which it can be run."""

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attnref.text import Refusal
from attnref.watching.call import Call
from attnref.watching.masks import allowed_of, recognise
from attnref.watching.patches import recording
from attnref.watching.recorder import Listener

WAYS = ("alone", "cache")
_NUMBERS = 64  # of a token that are compared, evenly taken
_ALL = 2**14  # of an output that are compared without regard to tokens
_MOST = 2**21  # pairs whose masks are compared


@dataclass
class Output:
    """What a module returned: the numbers that are compared, for each token and at all.

    ``numbers`` is ``(b, n, ≤ _NUMBERS)``, None where it has no such axes.
    """

    kind: str
    numbers: Tensor | None
    unit: float = torch.finfo(torch.float32).eps
    shape: tuple[int, ...] = ()
    all: Tensor | None = None  # (≤ _ALL), in its own order


@dataclass
class Asked:
    """A call of attention, with what is compared."""

    tensors: tuple[Tensor, Tensor, Tensor]  # (b, n, ≤ _NUMBERS)
    arguments: dict[str, object]
    allowed: Tensor | None  # (b, n, m)
    function: str
    unit: float


@dataclass
class Trace(Listener):
    """What the modules of a model returned in one run, in the order in which they ended."""

    outputs: dict[str, list[Output]] = field(default_factory=dict)
    calls: dict[str, list[Asked]] = field(default_factory=dict)
    sizes: tuple[int, int] | None = None  # samples and tokens of what runs

    def _on_leave(self, module: nn.Module, name: str, inputs: Any, output: Any) -> None:
        """Keeps what it returned."""
        first = output
        while isinstance(first, tuple | list | Mapping) and len(first):
            first = next(iter(first.values())) if isinstance(first, Mapping) else first[0]
        if isinstance(first, Tensor) and first.is_floating_point() and first.dim() > 1:
            found = first.detach()
            ordered = _by_token(found, self.sizes)
            if ordered is not None and (ordered.dim() < 3 or ordered.shape[:2] != self.sizes):
                ordered = None
            numbers = None if ordered is None else _some(ordered)
            flat = found.flatten()[:: max(1, found.numel() // _ALL)].float().cpu().clone()
            unit = torch.finfo(first.dtype).eps
            kept = Output(type(module).__name__, numbers, unit, first.shape, flat)
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
        unit = torch.finfo(call.dtype).eps
        asked = Asked(tensors, arguments, allowed, call.kernel, unit)  # type: ignore[arg-type]
        self.calls.setdefault(call.name, []).append(asked)


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


def by_name(model: nn.Module, inputs: Mapping[str, Any] | Sequence[Any] | Tensor) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        return dict(inputs)
    given = inputs if isinstance(inputs, tuple | list) else (inputs,)
    return dict(inspect.signature(model.forward).bind(*given).arguments)


def run(model: nn.Module, inputs: Sequence[Mapping[str, Any]]) -> Trace:
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


def check_way(model: nn.Module, given: Mapping[str, Any], way: str) -> None:
    _tokens(given, way)
    if way == "cache" and getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        raise Refusal(
            "model: it has an encoder and a decoder, and only a decoder has a cache. Compare "
            "model.get_decoder(), with encoder_hidden_states among its inputs."
        )


def padding_of(given: Mapping[str, Any]) -> Tensor | None:
    """Which tokens are real, ``(b, n)``, if the inputs say it."""
    for name in ("attention_mask", "mask"):
        found = given.get(name)
        if isinstance(found, Tensor) and found.dim() == 2:
            return found.bool().cpu()
    return None


def _tokens(given: Mapping[str, Any], way: str) -> Tensor:
    for found in (given.get("input_ids"), given.get("inputs_embeds"), *given.values()):
        if isinstance(found, Tensor) and found.dim() > 1:
            return found
    raise Refusal(
        "inputs: expected a tensor of (b, n) tokens or (b, n, d) features, got {names}. The way "
        "{way!r} divides it into samples or tokens.",
        names=", ".join(given) or "nothing",
        way=way,
    )


def alone(model: nn.Module, given: Mapping[str, Any]) -> tuple[list[Trace], list[Tensor]]:
    """A run of each sample without its padding, and where its tokens were."""
    tokens = _tokens(given, "alone")
    b, n = tokens.shape[:2]
    mask = padding_of(given)
    mask = torch.ones(b, n, dtype=torch.bool) if mask is None else mask
    runs, places = [], []
    for sample in range(b):
        kept = mask[sample].nonzero()[:, 0]
        if not len(kept):
            raise Refusal(
                "inputs: sample {sample} consists of padding only, so there is nothing to run. "
                "Remove it from the batch.",
                sample=str(sample),
            )
        own = {
            name: x[sample : sample + 1, kept]
            if isinstance(x, Tensor) and x.shape[:2] == (b, n)
            else x[sample : sample + 1]
            if isinstance(x, Tensor) and x.shape[:1] == (b,)
            else x
            for name, x in given.items()
        }
        runs.append(run(model, [own]))
        places.append(kept)
    return runs, places


def cached(model: nn.Module, given: Mapping[str, Any]) -> Trace:
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
def implementation(model: nn.Module, name: str) -> Iterator[None]:
    """A model of Transformers with that implementation for a while."""
    setter: Any = getattr(model, "set_attn_implementation", None)
    if setter is None:
        raise Refusal(
            "other: expected a model, one of {ways}, or for a model of Transformers the name of an "
            "implementation, got {got!r}.",
            ways=", ".join(WAYS),
            got=name,
        )
    config: Any = model.config
    before = {each: getattr(config, each) for each in getattr(config, "sub_configs", {})}
    before = {each: part._attn_implementation for each, part in before.items() if part is not None}
    before[""] = config._attn_implementation
    if name == "attnref":
        import attnref.integrations.transformers  # noqa: F401 (registers it)
    setter(name)
    try:
        yield
    finally:
        setter(before)
