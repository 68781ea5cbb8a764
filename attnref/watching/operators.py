"""What a model computes, operator by operator: kernels, fused layers, attention written out.

A dispatch mode sees each operator below autograd and lets it run as it is. Attention that a model
writes out is followed from the product of queries and keys to the softmax and to the product with
the values; what is not that is never taken for it.
"""

import math
import weakref
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attnref.watching.call import MATH, OWN, Call, call_of, four_axes
from attnref.watching.following import Followed, Scores, Weights
from attnref.watching.fused import KERNELS, LAYERS, kernel_call, layer_call

_aten = torch.ops.aten

_LOWEST = -1e4  # what is filled in to hide
_NEARLY = 0.2  # of the share that was meant to be dropped


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tells of each attention that it sees.

    Args:
        on_call: gets each call; its name and module are filled in there.
        parameters: where the numbers of parameters lie, which are no queries.
        on_error: is told of what went wrong while looking.
    """

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """What is compiled runs compiled, although a mode is on."""
        return True

    def __init__(
        self,
        on_call: Callable[[Call], None],
        parameters: Callable[[], Collection[int]],
        on_error: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self.on_error = on_error
        super().__init__()  # type: ignore[no-untyped-call]
        self.on_call = on_call
        self.parameters = parameters
        self.kernel = ""  # of the last fused attention
        self.inside = 0  # calls of functions that are recorded by their names
        self.followed = Followed()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        try:
            self._look(func, args, kwargs or {}, output)
        except Exception as error:
            self.on_error(error)
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
        known = what.known and (what.plain or by == 1)
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
            if other.dtype == torch.bool:  # added, it is a number
                other = other.to(output.dtype)
            self.followed.note(output, replace(_led(what, output), added=(*what.added, other)))

    def _hide(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        if packet is _aten.where and len(args) == 3:
            condition, one, other = args
            what = self.followed.get(one)
            number, kept = (other, "shown") if what is not None else (one, "hidden")
            what = what or self.followed.get(other)
        elif packet is not _aten.where:
            what, condition, number, kept = self.followed.get(args[0]), args[1], args[2], "hidden"
        else:
            return
        if what is None:
            return
        if isinstance(what, Weights):  # after the softmax
            self.followed.note(output, what._replace(known=False))
        elif (_number(number) or 0.0) <= _LOWEST:
            masks: Any = {kept: (*getattr(what, kept), condition)}
            self.followed.note(output, replace(_led(what, output), **masks))
        else:
            self.followed.note(output, replace(what, known=False))

    def _bound(self, packet: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        what = self.followed.get(args[0])
        if isinstance(what, Scores):
            what = replace(what, bounded=what.factor, known=what.known and what.plain)
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
            masks: Any = {
                kind: tuple(x.expand(shape).mT for x in getattr(what, kind))
                for kind in ("added", "hidden", "shown")
            }
            what = replace(what, **masks)
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
        scores = weights.scores
        # Heads that were laid into the axis of samples are taken apart as a mask found them.
        apart = made.dim() == 3 and scores.lead is not None and scores.lead.numel() == len(made)
        axes = (*(scores.lead if apart and scores.lead else made.shape[:-2]), made.shape[-2], m)
        made = four_axes(made[..., :m].reshape(axes))
        given = None if given is None else four_axes(given[..., :m].reshape(axes))
        lead = made.shape[:2]
        query, key, value, result = (
            x.reshape(*lead, *x.shape[-2:]) for x in (query, key, value, output)
        )
        call = call_of(OWN, (query, key, value))
        call.output, call.scores, call.weights = result, given, made
        call.scale, call.softcap = scores.factor, scores.softcap
        call.mask, call.sink = scores.mask(lead), scores.sink
        if len(scores.hidden) == 1 and not (scores.added or scores.shown):
            call.source = scores.hidden[0]
        call.known, call.dropout = scores.known and weights.known, weights.dropped
        call.kernel = MATH
        self.on_call(call)


def _led(scores: Scores, output: Tensor) -> Scores:
    """With samples and heads noted, where they are two axes."""
    return replace(scores, lead=output.shape[:2]) if output.dim() == 4 else scores


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
