"""What a model computes, operator by operator: kernels, fused layers, attention written out.

A dispatch mode sees each operator below autograd and lets it run as it is. Attention that a model
writes out is followed from the product of queries and keys to the softmax and to the product with
the values; what is not that is never taken for it.
"""

import functools
import math
import weakref
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attnref.watching.call import FUSED, LAYER, OWN, Call, Inputs, four_axes, layout

_aten = torch.ops.aten

# What computes a fused attention, by the names that people know.
KERNELS = {
    "_scaled_dot_product_flash_attention_for_cpu": "flash",
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_efficient_attention": "efficient",
    "_scaled_dot_product_cudnn_attention": "cudnn",
    "_scaled_dot_product_fused_attention_overrideable": "fused",
    "_scaled_dot_product_attention_math_for_mps": "math",
    "_flash_attention_forward": "flash",
    "_efficient_attention_forward": "efficient",
}
_LOWEST = -1e4  # what is filled in to hide
_NEARLY = 0.2  # of the share that was meant to be dropped
MATH = "math"  # products and a softmax, which is what is left where no fused kernel is


@dataclass(frozen=True)
class Scores:
    """Products of queries and keys, and what was done to them since."""

    query: Tensor  # (b, n, d)
    key: Tensor  # (b, m, d)
    factor: float = 1.0
    added: tuple[Tensor, ...] = ()
    hidden: tuple[Tensor, ...] = ()
    bounded: float | None = None  # the factor before a hyperbolic tangent
    softcap: float | None = None
    sink: Tensor | None = None
    known: bool = True
    turned: bool = False  # (…, m, n)


class Weights(NamedTuple):
    """What a softmax made of scores; both are held by the model alone."""

    scores: Scores
    input: "weakref.ref[Tensor]"  # what the softmax got
    output: "weakref.ref[Tensor]"
    shape: torch.Size  # of what is multiplied with the values
    known: bool = True
    dropped: float = 0.0
    turned: bool = False  # (…, m, n) by now
    laid: bool = False  # the same, when the softmax was taken


@dataclass
class Followed:
    """What is known of tensors, for as long as they live."""

    tensors: dict[int, tuple[weakref.ref[Tensor], int, Scores | Weights]] = field(
        default_factory=dict
    )
    writing: bool = False  # whether the operator changes its argument

    def get(self, tensor: object) -> Scores | Weights | None:
        """What that one is, None where nothing is known; if it was written to, how is unknown."""
        found = self.tensors.get(id(tensor))
        if found is None or not isinstance(tensor, Tensor) or found[0]() is not tensor:
            return None
        _, version, what = found
        if _version(tensor) <= version:
            return what
        return (
            replace(what, known=False) if isinstance(what, Scores) else what._replace(known=False)
        )

    def note(self, tensor: object, what: Scores | Weights) -> None:
        """That one is that."""
        if isinstance(tensor, Tensor):
            place = id(tensor)
            forget = functools.partial(_forget, weakref.ref(self), place)
            version = _version(tensor) + self.writing  # which is counted a little later
            self.tensors[place] = (weakref.ref(tensor, forget), version, what)


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _forget(followed: "weakref.ref[Followed]", place: int, gone: "weakref.ref[Tensor]") -> None:
    known = followed()
    if known is not None and known.tensors.get(place, (None,))[0] is gone:
        del known.tensors[place]


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tells of each attention that it sees.

    Args:
        told: gets each call; its name and module are filled in there.
        parameters: where the numbers of parameters lie, which are no queries.
        missed: is told of what went wrong while looking.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        told: Callable[[Call], None],
        parameters: Callable[[], Collection[int]],
        missed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self.missed = missed
        super().__init__()  # type: ignore[no-untyped-call]
        self.told = told
        self.parameters = parameters
        self.kernel = ""  # of the last fused attention
        self.inside = 0  # calls of functions that are heard by their names
        self.followed = Followed()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        try:
            self._look(func, args, kwargs or {}, output)
        except Exception as error:
            self.missed(error)
        return output

    def _look(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        packet = getattr(func, "overloadpacket", None)  # none of what holds functions
        if packet is None:
            return
        kernel = _KERNELS.get(packet)
        if kernel is not None:
            self.kernel = kernel
            if not self.inside:
                self.told(_kernel_call(kernel, _arguments(func, args, kwargs), output))
        elif self.inside:
            pass
        elif (layer := _LAYERS.get(packet)) is not None:
            self.told(layer(func, args, kwargs, output))
        elif (step := _STEPS.get(packet)) is not None:
            self.followed.writing = func._schema.is_mutable
            step(self, packet, args, kwargs, output)

    # What follows is done to what each operator gave.

    def _product(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        added, (one, other) = args[:-2], args[-2:]
        known = self.followed.get(one), self.followed.get(other)
        if isinstance(known[0], Weights):
            self._finish(known[0], one, other, output)
        elif isinstance(known[1], Weights):
            turned = known[1]._replace(turned=not known[1].turned)
            self._finish(turned, other.mT, one.mT, output.mT)
        elif one.layout != torch.strided or other.layout != torch.strided:
            return
        elif one.shape[-1] and not self._is_parameter(one) and not self._is_parameter(other):
            query, key = (x if x.dim() == 3 else x[None] for x in (one, other.mT))
            scores = Scores(query, key, kwargs.get("alpha", 1))
            bias = kwargs.get("beta", 1)
            if added and bias:
                scores = replace(scores, added=(added[0] if bias == 1 else bias * added[0],))
            self.followed.note(output, scores)

    def _is_parameter(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self.parameters()

    def _same(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        what = self.followed.get(args[0])
        if what is None:
            return
        if isinstance(what, Weights) and packet is _aten.slice and output.shape != args[0].shape:
            what = what._replace(output=weakref.ref(output), shape=output.shape)  # of no sink
        self.followed.note(output, what)

    def _turn(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        what = self.followed.get(args[0])
        if what is None or not isinstance(output, Tensor):
            return
        axes = output.dim()
        if packet is _aten.permute:
            order = [axis % axes for axis in args[1]]
        else:
            order = list(range(axes))
            pair = args[1:3] if packet is _aten.transpose else (-2, -1)
            one, other = (axis % axes for axis in pair)
            order[one], order[other] = order[other], order[one]
        long = [axis for axis in order if args[0].shape[axis] > 1]
        swapped = [*sorted(long)[:-2], *sorted(long)[:-3:-1]]
        if long == sorted(long):
            self.followed.note(output, what)
        elif long != swapped:
            return  # other axes than the last two change their places
        elif isinstance(what, Weights):
            self.followed.note(output, what._replace(turned=not what.turned))
        else:
            self.followed.note(output, replace(what, turned=not what.turned))

    def _multiply(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        place = next((i for i in (0, 1) if self.followed.get(args[i]) is not None), None)
        if place is None:
            return
        what, other = self.followed.get(args[place]), args[1 - place]
        if isinstance(what, Weights):
            what = what._replace(known=False)
            if isinstance(other, Tensor) and other.dim() > 1:
                what = what._replace(dropped=_dropped(other))
            self.followed.note(output, what)
            return
        assert isinstance(what, Scores)
        by = _number(other)
        if by is None or (place == 1 and packet in (_aten.div, _aten.div_)):
            self.followed.note(output, replace(what, known=False))
            return
        by = 1 / by if packet in (_aten.div, _aten.div_) and by else by
        if what.bounded is not None and what.softcap is None:
            what = replace(what, factor=what.bounded * by, softcap=by)
            self.followed.note(output, what)
            return
        plain = not what.added and not what.hidden and what.softcap is None
        known = what.known and (plain or by == 1)
        self.followed.note(output, replace(what, factor=what.factor * by, known=known))

    def _add(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        place = next((i for i in (0, 1) if isinstance(self.followed.get(args[i]), Scores)), None)
        if place is None:
            return
        what, other = self.followed.get(args[place]), args[1 - place]
        assert isinstance(what, Scores)
        less = packet in (_aten.sub, _aten.sub_)
        if not isinstance(other, Tensor) or (
            other.shape[-1:] == (1,) and args[place].shape[-1] > 1
        ):
            self.followed.note(output, what if place == 0 else replace(what, known=False))
        elif less or kwargs.get("alpha", 1) != 1 or output.shape != args[place].shape:
            self.followed.note(output, replace(what, known=False))
        else:
            self.followed.note(output, replace(what, added=(*what.added, other)))

    def _hide(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        if packet is _aten.where and len(args) == 3:
            condition, one, other = args
            what = self.followed.get(one)
            hidden, number = (~condition, other) if what is not None else (condition, one)
            what = what or self.followed.get(other)
        elif packet is not _aten.where:
            what, hidden, number = self.followed.get(args[0]), args[1], args[2]
        else:
            return
        if what is None:
            return
        if isinstance(what, Weights):  # after the softmax
            self.followed.note(output, what._replace(known=False))
        elif (_number(number) or 0.0) <= _LOWEST:
            self.followed.note(output, replace(what, hidden=(*what.hidden, hidden)))
        else:
            self.followed.note(output, replace(what, known=False))

    def _bound(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        what = self.followed.get(args[0])
        if isinstance(what, Scores):
            plain = not what.added and not what.hidden
            what = replace(what, bounded=what.factor, known=what.known and plain)
            self.followed.note(output, what)

    def _join(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        parts, axis = args[0], (args[1] if len(args) > 1 else 0)
        what = self.followed.get(parts[0])
        last = axis % output.dim() == output.dim() - 1
        if isinstance(what, Scores) and last and len(parts) == 2 and parts[1].shape[-1] == 1:
            self.followed.note(output, replace(what, sink=parts[1]))

    def _softmax(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        what = self.followed.get(args[0])
        if not isinstance(what, Scores) or output.dim() < 2:
            return
        axis = args[1] % output.dim()
        if axis < output.dim() - 2:
            return
        # What is summed over are the keys, whatever they were called.
        turned = axis != output.dim() - 1
        if turned != what.turned:
            what = replace(what, query=what.key, key=what.query)
        if turned:
            shape = args[0].shape
            added, hidden = (
                tuple(x.expand(shape).mT for x in each) for each in (what.added, what.hidden)
            )
            what = replace(what, added=added, hidden=hidden)
        given, made = weakref.ref(args[0]), weakref.ref(output)
        shape = output.mT.shape if turned else output.shape
        self.followed.note(output, Weights(what, given, made, shape, turned=turned, laid=turned))

    def _drop(self, packet: Any, args: Any, kwargs: Any, output: Any) -> None:
        what = self.followed.get(args[0])
        if isinstance(what, Weights):
            share = float(args[1]) if args[2] is not False else 0.0
            what = what._replace(dropped=share, known=what.known and not share)
            self.followed.note(output[0], what)

    def _finish(self, weights: Weights, used: Tensor, value: Tensor, output: Tensor) -> None:
        query, key = weights.scores.query, weights.scores.key
        if weights.turned:  # as a backward pass multiplies
            return
        # What the model has let go by now is not looked at: the scores may have overflowed, and
        # weights that were rounded or dropped since are those that count.
        given, made = weights.input(), weights.output()
        made = used.reshape(weights.shape) if made is None else made.mT if weights.laid else made
        given = given if given is None or not weights.laid else given.mT
        m = key.shape[-2]
        value = value if value.dim() == 3 else value[None]
        rows = (math.prod(made.shape[:-2]), made.shape[-2])
        if rows != query.shape[:2] or value.shape[-2] != m or made.shape[-1] < m:
            return  # the axes were mixed on the way
        made = four_axes(made[..., :m])
        given = None if given is None else four_axes(given[..., :m])
        lead = made.shape[:2]
        query, key, value, result = (
            x.reshape(*lead, *x.shape[-2:]) for x in (query, key, value, output)
        )
        scores = weights.scores
        masks = [
            _of_heads(mask, lead) for mask in (*scores.added, *(~each for each in scores.hidden))
        ]
        call = call_of(OWN, (query, key, value))
        call.output, call.scores, call.weights = result, given, made
        call.scale, call.softcap = scores.factor, scores.softcap
        call.attn_mask, call.sink = _join_masks(masks), scores.sink
        call.known, call.dropout = scores.known and weights.known, weights.dropped
        call.kernel = MATH
        self.told(call)


def call_of(function: str, inputs: Inputs) -> Call:
    """A call with these tensors."""
    query, key, value = inputs
    shapes = (query.shape, key.shape, value.shape)
    call = Call("", function, lambda: inputs, shapes, query.dtype, query.device)
    call.layouts = tuple(map(layout, inputs))
    return call


def _of_heads(mask: Tensor, lead: torch.Size) -> Tensor:
    """A mask for samples and heads as one axis, with two for them."""
    if mask.dim() == 3 and len(mask) == math.prod(lead) and len(mask) > 1:
        return mask.view(*lead, *mask.shape[1:])
    return mask


def _join_masks(masks: list[Tensor]) -> Tensor | None:
    """One that says what all of them say."""
    if not masks:
        return None
    joined, *others = masks
    for mask in others:
        if joined.dtype == mask.dtype == torch.bool:
            joined = joined & mask
        else:
            joined = _numbers(joined) + _numbers(mask)
    return joined


def _numbers(mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=torch.float32).masked_fill(~mask, -math.inf)


def _dropped(noise: Tensor) -> float:
    """The share that is dropped; 0 where the others are not made larger, as by a mask."""
    share = float((noise == 0).double().mean())
    largest = float(noise.max())
    return share if largest > 1 and abs(largest * (1 - share) - 1) < _NEARLY else 0.0


def _number(x: object) -> float | None:
    if isinstance(x, Tensor):
        return x.item() if x.numel() == 1 and x.device.type == "cpu" else None
    return float(x) if isinstance(x, int | float) else None


def _arguments(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of an operator by name."""
    given: dict[str, Any] = {each.name: each.default_value for each in func._schema.arguments}
    return {**given, **dict(zip(given, args, strict=False)), **kwargs}


def _kernel_call(kernel: str, given: dict[str, Any], output: Any) -> Call:
    """A fused kernel that was reached under a name that nobody knows."""
    call = call_of(FUSED, (given["query"], given["key"], given["value"]))
    call.attn_mask = given.get("attn_mask", given.get("attn_bias"))
    call.is_causal, call.scale = bool(given.get("is_causal")), given.get("scale")
    call.dropout, call.enable_gqa = float(given.get("dropout_p") or 0.0), True
    call.output, call.kernel = output[0] if isinstance(output, tuple) else output, kernel
    return call


def _fused_layer(func: Any, args: Any, kwargs: Any, output: Any) -> Call:
    """A whole encoder layer in one operator, or the attention of one."""
    given = _arguments(func, args, kwargs)
    source = given.get("src", given.get("query"))
    heads = given.get("num_heads", given.get("num_head"))
    assert isinstance(source, Tensor)
    assert isinstance(heads, int)
    first = source if not source.is_nested else source.unbind()[0][None]
    shape = torch.Size((source.size(0), heads, first.shape[-2], first.shape[-1] // heads))

    @functools.cache
    def inputs() -> Inputs:
        x = first
        if given.get("norm_first"):
            x = torch.nn.functional.layer_norm(
                x,
                x.shape[-1:],
                given["norm_weight_1"],
                given["norm_bias_1"],
                given["eps"],
            )
        made = torch.nn.functional.linear(x, given["qkv_weight"], given["qkv_bias"])
        q, k, v = (y.view(*y.shape[:-1], heads, -1).transpose(1, 2) for y in made.chunk(3, -1))
        return q, k, v

    call = Call("", LAYER, inputs, (shape, shape, shape), source.dtype, source.device)
    mask = given.get("mask")
    if isinstance(mask, Tensor):  # True hides
        hides = mask if mask.dtype == torch.bool else mask != 0
        call.attn_mask = ~hides[:, None, None] if given.get("mask_type") == 1 else ~hides
    call.kernel = "nested" if source.is_nested else MATH
    return call


_KERNELS = {
    getattr(_aten, name): kernel for name, kernel in KERNELS.items() if hasattr(_aten, name)
}
_LAYERS = {
    _aten._transformer_encoder_layer_fwd: _fused_layer,
    _aten._native_multi_head_attention: _fused_layer,
}
_STEPS: dict[Any, Callable[[Operators, Any, Any, Any, Any], None]] = {
    **dict.fromkeys((_aten.bmm, _aten.mm, _aten.baddbmm), Operators._product),
    **dict.fromkeys(
        (
            *(_aten.view, _aten._unsafe_view, _aten.reshape, _aten.expand, _aten.clone),
            *(_aten._to_copy, _aten.detach, _aten.alias, _aten.unsqueeze, _aten.squeeze),
            *(_aten.slice, _aten.contiguous, _aten._reshape_alias, _aten.nan_to_num),
        ),
        Operators._same,
    ),
    **dict.fromkeys((_aten.transpose, _aten.permute, _aten.t), Operators._turn),
    **dict.fromkeys((_aten.mul, _aten.mul_, _aten.div, _aten.div_), Operators._multiply),
    **dict.fromkeys((_aten.add, _aten.add_, _aten.sub, _aten.sub_), Operators._add),
    **dict.fromkeys((_aten.masked_fill, _aten.masked_fill_, _aten.where), Operators._hide),
    **dict.fromkeys((_aten.tanh, _aten.tanh_), Operators._bound),
    _aten.cat: Operators._join,
    **dict.fromkeys((_aten._softmax, _aten._safe_softmax), Operators._softmax),
    _aten.native_dropout: Operators._drop,
}
