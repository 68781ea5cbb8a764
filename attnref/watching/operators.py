"""What a model computes, operator by operator: kernels, fused layers, attention written out.

A dispatch mode sees each operator below autograd and lets it run as it is. Attention that a model
writes out is followed from the product of queries and keys to the softmax and to the product with
the values; what is not that is never taken for it.
"""

import weakref
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch._C._dynamo.eval_frame import set_eval_frame
from torch.utils._python_dispatch import TorchDispatchMode

from attnref.watching.call import MATH, OWN, Call, call_of
from attnref.watching.following import (
    Followed,
    Scores,
    Weights,
    is_sorted,
    is_usual,
    reshaped,
    tidy,
    usual,
)
from attnref.watching.fused import KERNELS, LAYERS, kernel_call, layer_call

_aten = torch.ops.aten

_LOWEST = -1e4  # what is filled in to hide
_NEARLY = 0.2  # of the share that was meant to be dropped


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tells of each attention that it sees.

    Args:
        on_call: gets each call; its name and module are filled in there.
        on_softmax: is told of each softmax of scores, +1, and of its product with values, -1, with
            the place of the softmax.
        where: names the place that runs.
        parameters: where the numbers of parameters lie, which are no queries.
        on_error: is told of what went wrong while looking.
    """

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """What is compiled runs compiled, although a mode is on."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Said below, without what takes seconds to import."""
        return False

    def __init__(
        self,
        on_call: Callable[[Call], None],
        on_softmax: Callable[[str, int], None],
        where: Callable[[], str],
        parameters: Callable[[], Collection[int]],
        on_error: Callable[[Exception], None],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.on_call, self.on_softmax, self.where = on_call, on_softmax, where
        self.parameters, self.on_error = parameters, on_error
        self.kernel = ""  # of the last fused attention
        self.inside = 0  # calls of functions that are recorded by their names
        self.followed = Followed()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        compiler = set_eval_frame(None)  # nothing here is compiled
        try:
            output = func(*args, **(kwargs or {}))
            if torch._C._current_graph_task_id() < 0:  # no backward pass
                try:
                    self._look(func, args, kwargs or {}, output)
                except Exception as error:
                    self.on_error(error)
        finally:
            set_eval_frame(compiler)
        return output

    def _look(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        packet = getattr(func, "overloadpacket", None)  # none of what holds functions
        if packet is None:
            return
        kernel = KERNELS.get(packet)
        if kernel is not None:
            self.kernel = kernel
            if not self.inside:
                self.on_call(kernel_call(func, args, kwargs, output))
        elif self.inside:
            pass
        elif packet in LAYERS:
            self.on_call(layer_call(func, args, kwargs, output))
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
            order = (*known[1].order[:-2], *known[1].order[:-3:-1])
            self._finish(replace(known[1], order=order), other.mT, one.mT, output.mT)
        elif one.layout != torch.strided or other.layout != torch.strided:
            return
        elif one.shape[-1] and not self._is_parameter(one) and not self._is_parameter(other):
            query, key = (x if x.dim() == 3 else x[None] for x in (one, other.mT))
            scores = Scores(query, key, tuple(range(output.dim())), kwargs.get("alpha", 1))
            bias = kwargs.get("beta", 1)
            if added and bias:
                bias = added[0] if bias == 1 else bias * added[0]
                scores = scores.lay("added", bias, output.shape)
            self.followed.note(output, scores)

    def _is_parameter(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self.parameters()

    def _same(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        what, given = self.followed.get(args[0]), args[0]
        if what is None or output.shape == given.shape:
            if what is not None:
                self.followed.note(output, what)
        elif packet is _aten.slice:
            if isinstance(what, Weights) and output.shape[:-1] == given.shape[:-1]:  # of no sink
                what = replace(what, output=weakref.ref(output), made=what.order)
                self.followed.note(output, what)
        elif output.numel() == given.numel():
            order = reshaped(what.order, given.shape, output.shape)
            if order is not None:
                self.followed.note(output, replace(what, order=order))

    def _turn(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        what = self.followed.get(args[0])
        if what is None:
            return
        axes = output.dim()
        if packet is _aten.permute:
            moved = [axis % axes for axis in args[1]]
        else:
            moved = list(range(axes))
            pair = args[1:3] if packet is _aten.transpose else (-2, -1)
            one, other = (axis % axes for axis in pair)
            moved[one], moved[other] = moved[other], moved[one]
        order = tuple(what.order[axis] for axis in moved)
        self.followed.note(output, replace(what, order=tidy(order, output.shape)))

    def _first(self, args: Any, kind: type, output: Tensor) -> tuple[int, Any]:
        """Which of two arguments is followed and is all of the output, and what it is."""
        for place in (0, 1):
            what = self.followed.get(args[place])
            if isinstance(what, kind) and output.shape == args[place].shape:
                return place, what
        return 0, None

    def _multiply(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        place, what = self._first(args, Scores | Weights, output)  # type: ignore[arg-type]
        other = args[1 - place]
        if isinstance(what, Weights):
            what = replace(what, known=False)
            if isinstance(other, Tensor) and other.dim() > 1:
                what = replace(what, dropped=_dropped(other))
            self.followed.note(output, what)
        if not isinstance(what, Scores):
            return
        divided = packet in (_aten.div, _aten.div_)
        by = _number(other)
        if by is None or (place == 1 and divided):
            self.followed.note(output, replace(what, known=False))
            return
        by = 1 / by if divided and by else by
        if what.bounded is not None and what.softcap is None:
            what = replace(what, factor=what.bounded * by, softcap=by)
        else:
            known = what.known and (what.plain or by == 1)
            what = replace(what, factor=what.factor * by, known=known)
        self.followed.note(output, what)

    def _add(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        place, what = self._first(args, Scores, output)
        if what is None:
            return
        other = args[1 - place]
        less = packet in (_aten.sub, _aten.sub_)
        # The same for all keys, such as the largest score, changes no weight.
        keys = is_usual(what.order) and output.shape[-1] >= what.key.shape[-2]
        if not isinstance(other, Tensor) or (
            keys and other.shape[-1:] == (1,) and output.shape[-1] > 1
        ):
            what = what if place == 0 or not less else replace(what, known=False)
        elif less or kwargs.get("alpha", 1) != 1:
            what = replace(what, known=False)
        else:
            # Added, True is a number.
            other = other.to(output.dtype) if other.dtype == torch.bool else other
            what = what.lay("added", other, output.shape)
        self.followed.note(output, what)

    def _hide(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        if packet is not _aten.where:
            what, condition, number, kind = self.followed.get(args[0]), args[1], args[2], "hidden"
        elif len(args) == 3:
            condition, one, other = args
            what, number, kind = self.followed.get(one), other, "shown"
            if what is None:
                what, number, kind = self.followed.get(other), one, "hidden"
        else:
            return
        if isinstance(what, Weights):  # after the softmax
            self.followed.note(output, replace(what, known=False))
        elif what is not None:
            by = _number(number)
            if by is not None and by <= _LOWEST:
                what = replace(what.lay(kind, condition, output.shape), fill=max(by, what.fill))
            else:
                what = replace(what, known=False)
            self.followed.note(output, what)

    def _bound(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        what = self.followed.get(args[0])
        if isinstance(what, Scores):
            what = replace(what, bounded=what.factor, known=what.known and what.plain)
            self.followed.note(output, what)

    def _join(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        parts, axis = args[0], (args[1] if len(args) > 1 else 0)
        if len(parts) != 2 or axis % output.dim() != output.dim() - 1:
            return
        for scores, sink in (parts, parts[::-1]):
            what = self.followed.get(scores)
            if isinstance(what, Scores) and sink.shape[-1] == 1 and is_usual(what.order):
                self.followed.note(output, replace(what, sink=sink, first=sink is parts[0]))
                return

    def _softmax(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        what = self.followed.get(args[0])
        if not isinstance(what, Scores) or output.dim() < 2:
            return
        last = max(what.order)
        axis = what.order[args[1] % output.dim()]
        if axis == last - 1:  # what is summed over are the keys, whatever they were called
            what = what.turn()
        elif axis != last:
            return
        given, made, place = weakref.ref(args[0]), weakref.ref(output), self.where()
        self.followed.note(output, Weights(what, what.order, given, made, what.order, place))
        self.on_softmax(place, 1)

    def _drop(self, packet: Any, args: Any, kwargs: Any, output: Any) -> None:
        what = self.followed.get(args[0])
        if isinstance(what, Weights):
            share = float(args[1]) if args[2] is not False else 0.0
            what = replace(what, dropped=share, known=what.known and not share)
            self.followed.note(output[0], what)

    def _finish(self, weights: Weights, used: Tensor, value: Tensor, output: Tensor) -> None:
        scores, order = weights.scores, weights.order
        query, key = scores.query, scores.key
        m = key.shape[-2]
        if not is_sorted(order, used.shape) or used.shape[-1] != m or value.shape[-2] != m:
            return  # as another product multiplies
        # What the model has let go by now is not looked at: the scores may have overflowed, and
        # weights that were rounded or dropped since are those that count.
        given, made = weights.input(), weights.output()
        if weights.products:
            return  # they weigh something else, too
        made = used if made is None else usual(made, weights.made)
        given = None if given is None else usual(given, weights.made)
        if made.shape[-1] < m or made.dim() < 2:
            return
        kept = slice(-m, None) if scores.first else slice(m)
        lead, n = made.shape[:-2], made.shape[-2]
        if len(lead) > 2:
            lead = torch.Size(size for size in lead if size > 1)
        if len(lead) == 1:  # as what was laid on them lay, with an axis for heads
            laid = (each.shape for each in scores.laid if len(each.shape) == 4 and not each.turned)
            lead = next((torch.Size(x[:2]) for x in laid if x[0] * x[1] == lead[0]), lead)
        axes = _heads(lead, n, query.shape)
        if axes is None:
            return
        b, h, shared = axes
        shape = torch.Size((b, h, n, m))
        made = made[..., kept].reshape(shape)
        given = None if given is None else given[..., kept].reshape(shape)
        value = value if value.dim() == 3 else value[None]
        if b * h * n * m != used.numel() or value.shape[0] % b or h % (value.shape[0] // b):
            return
        query, result = (x.reshape(b, h, n, x.shape[-1]) for x in (query, output))
        key = key.reshape(b, shared, m, key.shape[-1])
        value = value.reshape(b, value.shape[0] // b, m, value.shape[-1])
        if value.shape[1] != shared:
            key, value = (x.repeat_interleave(h // x.shape[1], 1) for x in (key, value))
        call = call_of(OWN, (query, key, value))
        call.output, call.scores, call.weights = result, given, made
        call.scale, call.softcap = scores.factor, scores.softcap
        call.mask, call.sink, call.fill = scores.mask(shape), scores.sink, scores.fill
        if len(scores.laid) == 1:
            call.source = scores.laid[0].tensor
        call.known, call.dropout = scores.known and weights.known, weights.dropped
        call.kernel, call.laid = MATH, len(lead) == 1
        weights.products.append(weights.place)
        self.on_softmax(weights.place, -1)
        self.on_call(call)


def _heads(lead: torch.Size, n: int, query: torch.Size) -> tuple[int, int, int] | None:
    """Samples, heads and heads of keys: several heads of queries may share a product."""
    together = query[0]
    if lead.numel() * n != together * query[1]:
        return None
    if lead.numel() == together:
        h = lead[-1] if lead else 1
        return together // h, h, h
    for axis in range(len(lead)):
        if lead[: axis + 1].numel() == together:
            shared = lead[axis] if axis else 1
            return together // shared, lead.numel() * shared // together, shared
    return None


def _dropped(noise: Tensor) -> float:
    """The share that is dropped; 0 where the others are not made larger, as by a mask."""
    share = float((noise == 0).double().mean())
    largest = float(noise.max())
    return share if largest > 1 and abs(largest * (1 - share) - 1) < _NEARLY else 0.0


def _number(x: object) -> float | None:
    if isinstance(x, Tensor):
        return x.item() if x.numel() == 1 and x.device.type == "cpu" else None
    return float(x) if isinstance(x, int | float) else None


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
