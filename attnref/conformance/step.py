"""A decoding step with a cache, as a function of a whole sequence, so that it can be asked.

The sequence is fed to the step a piece at a time, one position unless ``pieces`` says otherwise,
and the outputs are put together again: a function that is always causal.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref.conformance.isolation import ran_out_of_memory
from attnref.conformance.subject import CheckError, Subject
from attnref.text import Text

# What a function that makes a cache may ask for.
SIZES = ("batch", "heads", "max_len", "head_dim", "dtype", "device")
# Positions that each cache has room for; with fewer, few sequences could be decoded.
_SHORT = 16


def _call(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    return function(*tensors, **options)


class Counting(NamedTuple):
    """How a step is told where its new positions are: in words, and what it is given.

    One that tells each sample its own is made of the samples' positions ``apart``, too.
    """

    said: Text
    made: Callable[[Tensor, int, int], object]
    apart: Callable[[Tensor], object] = lambda places: None


COUNTING: Mapping[str, Counting] = {
    "past": Counting(
        Text("the number of positions before"),
        lambda query, start, stop: start,
    ),
    "new": Counting(
        Text("the new positions, (n,)"),
        lambda query, start, stop: torch.arange(start, stop, device=query.device),
    ),
    "new_of_samples": Counting(
        Text("the new positions, (b, n)"),
        lambda query, start, stop: torch.arange(start, stop, device=query.device).expand(
            query.shape[0], -1
        ),
        lambda places: places[:, None].long(),
    ),
    "past_of_samples": Counting(
        Text("the number of positions before, (b,)"),
        lambda query, start, stop: query.new_full((query.shape[0],), start, dtype=torch.int32),
        lambda places: places,
    ),
    "all": Counting(
        Text("the number of positions, new ones included"),
        lambda query, start, stop: stop,
    ),
    "all_of_samples": Counting(
        Text("the number of positions, new ones included, (b,)"),
        lambda query, start, stop: query.new_full((query.shape[0],), stop, dtype=torch.int32),
        lambda places: places + 1,
    ),
}
"""In the order in which they are tried; made for a query, the first new position and the end."""


@dataclass(frozen=True)
class Step:
    """A step, the name of its cache, and what makes the first one, None where it is None.

    A cache of two ``parameters`` is a pair, of keys and of values. ``call`` asks a function of its
    layout. ``flag`` is what it wants for several new positions, to be causal, and ``shares`` says
    that it takes fewer key heads without an option that says so. What is told where the new
    positions are gets it in the parameter ``position``, as ``counting`` says. One that is
    ``filled`` begins with zeros for NaN, and ``along`` an axis others have a number per position.
    """

    function: Callable[..., Any]
    parameters: tuple[str, ...] = ("cache",)
    factory: Callable[..., Any] | None = None
    call: Callable[..., Any] = _call
    flag: str | None = None
    shares: bool = False
    position: str | None = None
    counting: str | None = None
    filled: bool = False
    along: Mapping[str, int] = field(default_factory=dict)

    def decode(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        /,
        *,
        pieces: Sequence[int] | None = None,
        branched: str | None = None,
        interleaved: bool = False,
        overwritten: bool = False,
        **options: Any,
    ) -> Any:
        """The outputs of all positions, ``(..., n, d_v)``.

        Args:
            query: ``(b, h, n, d_k)``.
            key: ``(b, h_kv, n, d_k)``.
            value: ``(b, h_kv, n, d_v)``.
            pieces: how many positions each step gets, n in all; None is one each.
            branched: ``"before"`` or ``"after"`` each step the same cache is also given other
                numbers, and what comes of that is thrown away.
            interleaved: after each step, one of another sequence with a cache of its own.
            overwritten: after each step its inputs are overwritten, as a caller's buffers are.
            options: as the step names them; masks are ``(n, n)``, or can be broadcast to it.

        An output that cannot be put beside the others is returned alone.
        """
        n = query.shape[-2]
        if key.shape[-2] != n:
            raise ValueError(f"key: expected {n} positions, as query has, got {key.shape[-2]}")
        options.pop("is_causal", None)
        if self.shares:
            options.pop("enable_gqa", None)
        whole = (query, key, value)
        other = tuple(1.0 - 2.0 * tensor for tensor in whole) if branched or interleaved else whole
        room = 2 * n if branched else n
        cache = self.start(whole, room)
        theirs = self.start(other, room) if interleaved else None
        outputs, stop = [], 0
        for length in pieces or (1,) * n or (0,):
            start, stop = stop, stop + length
            if branched == "before":
                self.advance(other, cache, start, stop, options)
            with _room_may_end(start):
                output, after = self.advance(
                    whole, cache, start, stop, options, overwritten=overwritten
                )
            if branched == "after":
                self.advance(other, cache, start, stop, options)
            if interleaved:
                _, theirs = self.advance(other, theirs, start, stop, options)
            cache = after
            if not _fits(output, query[..., start:stop, :], value):
                return output
            outputs.append(output)
        return torch.cat(outputs, -2)

    def start(self, tensors: Sequence[Tensor], room: int) -> Any:
        """The cache before the first step, with room for so many positions if it asks for that."""
        if self.factory is None:
            return None
        made = self.factory(**self.sizes(tensors[1], room))
        if self.filled:
            made = _fill(made)
        if len(self.parameters) == 2 and not _is_pair(made):
            raise CheckError(
                "cache: expected a pair of {first} and {second}, got {kind}. Return both.",
                first=self.parameters[0],
                second=self.parameters[1],
                kind=type(made).__name__,
            )
        return made

    def sizes(self, key: Tensor, room: int) -> dict[str, Any]:
        """Of what makes the first cache asks for, by name."""
        assert self.factory is not None
        sizes = (key.shape[0], key.shape[1], room, key.shape[-1], key.dtype, key.device)
        known = inspect.signature(self.factory).parameters
        return {each: size for each, size in zip(SIZES, sizes, strict=True) if each in known}

    def advance(
        self,
        tensors: Sequence[Tensor],
        cache: Any,
        start: int,
        stop: int,
        options: Mapping[str, Any],
        *,
        overwritten: bool = False,
        places: Tensor | None = None,
    ) -> tuple[Any, Any]:
        """The output of the positions from ``start`` to ``stop``, and the cache after them."""
        options = {
            name: self._cut(name, option, tensors[0].shape[-2], start, stop)
            if isinstance(option, Tensor)
            else option
            for name, option in options.items()
        }
        if self.flag is not None:
            options[self.flag] = stop - start > 1
        if self.position is not None and self.counting is not None:
            made = COUNTING[self.counting].made
            options[self.position] = made(tensors[0], start, stop)
            if places is not None:
                options[self.position] = COUNTING[self.counting].apart(places.to(torch.int32))
        views = [tensor[..., start:stop, :] for tensor in tensors]
        given = [
            view.contiguous() if tensor.is_contiguous() else view
            for view, tensor in zip(views, tensors, strict=True)
        ]
        if overwritten:
            given = [tensor.clone() for tensor in given]

        parts = cache if len(self.parameters) == 2 and cache is not None else (cache, cache)
        held = dict(zip(self.parameters, parts, strict=False))

        def step(*inputs: Tensor, **others: Any) -> Any:
            return self.function(*inputs, **held, **others)

        output, after = self._split_returned(self.call(step, *given, **options), cache)
        if overwritten:
            for tensor in given:
                tensor.fill_(9.0)
        elif not torch.is_grad_enabled():
            # What a step does to its inputs, it does to the caller's.
            for view, tensor in zip(views, given, strict=True):
                if tensor is not view and not torch.equal(tensor, view):
                    view.copy_(tensor)
        return output, after

    def _split_returned(self, returned: Any, cache: Any) -> tuple[Any, Any]:
        """The output, and the cache among the rest: it is seldom a plain tensor, weights are."""
        output, *rest = returned if isinstance(returned, tuple | list) and returned else (returned,)
        rest = [each for each in rest if each is not None]
        if len(self.parameters) == 2 and len(rest) > 1:
            return output, tuple(rest[-2:])
        if any(each is cache for each in rest):
            return output, cache
        others = [each for each in rest if not isinstance(each, Tensor)]
        if cache is not None and self.factory is not None:
            same = [each for each in rest if type(each) is type(cache)]
            return output, [cache, *others, *same][-1]  # it changes the one that it was given
        if not rest:
            raise CheckError(
                "function: expected (output, cache), got {kind}. Return the cache too; or, if a "
                "step changes it in place, say what makes the first one: --cache module:factory.",
                kind=type(returned).__name__,
            )
        return output, (others or rest)[-1]

    def _cut(self, name: str, option: Tensor, n: int, start: int, stop: int) -> Tensor:
        """What it says of the new positions: a mask, or a tensor that has one number for each."""
        if name in self.along:
            return option.narrow(self.along[name], start, stop - start)
        return option if option.ndim == 1 else _mask_rows(option, n, start, stop)

    def _pick(self, name: str, option: Any, places: Tensor) -> Any:
        """What it says of one position, each sample's own."""
        if name not in self.along:
            return option
        rows = zip(option.split(1), places, strict=True)
        return torch.cat([x.narrow(self.along[name], int(place), 1) for x, place in rows])

    def decode_apart(
        self, query: Tensor, key: Tensor, value: Tensor, /, lags: Sequence[int], **options: Any
    ) -> Any:
        """The outputs of all positions where each sample is some steps behind.

        One that has not begun, or has ended, writes its first, or last, position again.
        """
        n, samples = query.shape[-2], torch.arange(query.shape[0])
        cache, output = self.start((query, key, value), n), torch.zeros_like(value)
        for time in range(n + max(lags)):
            place = (time - torch.tensor(lags)).clamp(0, n - 1)
            now = [x[samples, :, place][:, :, None] for x in (query, key, value)]
            given = {name: self._pick(name, each, place) for name, each in options.items()}
            found, cache = self.advance(now, cache, 0, 1, given, places=place)
            begun = (time - torch.tensor(lags) >= 0) & (time - torch.tensor(lags) < n)
            rows = samples[begun]
            output[rows, :, place[rows]] = found[rows, :, 0].to(output.dtype)
        return output

    def works_in_place(self, tensors: Sequence[Tensor], options: Mapping[str, Any]) -> bool:
        """Whether the second step hands on the very object that it was given."""
        before = after = self.start(tensors, tensors[0].shape[-2])
        for position in range(2):
            before = after
            _, after = self.advance(tensors, before, position, position + 1, options)
        if len(self.parameters) == 2:
            return all(one is other for one, other in zip(before, after, strict=True))
        return after is before and not isinstance(after, tuple)


@contextlib.contextmanager
def _room_may_end(position: int) -> Iterator[None]:
    """An error late in a sequence tells of a full cache, however it is worded."""
    try:
        yield
    except Exception as error:
        if position < _SHORT or ran_out_of_memory(error):
            raise
        raise NotImplementedError(f"at position {position} {type(error).__name__}: {error}") from (
            error
        )


def _mask_rows(mask: Tensor, n: int, start: int, stop: int) -> Tensor:
    """What a mask says of these queries, and of the keys so far."""
    mask = mask[..., :stop]
    whole = mask.ndim > 1 and mask.shape[-2] == n
    return mask[..., start:stop, :] if whole else mask


def _fill(cache: Any) -> Any:
    """The cache with zeros for NaN."""
    if isinstance(cache, Tensor):
        return cache.nan_to_num(0.0) if cache.is_floating_point() else cache
    if isinstance(cache, dict):
        return {name: _fill(each) for name, each in cache.items()}
    if isinstance(cache, tuple | list):
        return type(cache)([_fill(each) for each in cache])
    for name, each in list(getattr(cache, "__dict__", {}).items()):
        setattr(cache, name, _fill(each) if isinstance(each, Tensor) else each)
    return cache


def _is_pair(cache: object) -> bool:
    return isinstance(cache, tuple | list) and len(cache) == 2


def _fits(output: Any, query: Tensor, value: Tensor) -> bool:
    return isinstance(output, Tensor) and output.shape == (*query.shape[:-1], value.shape[-1])


@dataclass(frozen=True)
class StepSubject(Subject):
    """A step, seen as the function of a whole sequence.

    One that ``counts`` may do without being told where its new positions are.
    """

    step: Step = Step(_call)
    counts: bool = True

    def stepping(self, step: Step) -> "StepSubject":
        """The same with this step."""
        return replace(self, step=step, function=unroll(step))


def unroll(step: Step) -> Callable[..., Any]:
    """The attention to a whole sequence, a step after another."""

    def attention(*tensors: Tensor, **options: Any) -> Any:
        return step.decode(*tensors, **options)

    attention.__wrapped__ = step.function  # type: ignore[attr-defined]
    return attention


def right_step(other: Subject) -> StepSubject:
    """A right step around ``other``, which computes the attention to all that it keeps."""

    def step(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cache: Any,
        attn_mask: Tensor | None = None,
        window: int | None = None,
        **options: Any,
    ) -> tuple[Any, Any]:
        held = cache or (key[..., :0, :], value[..., :0, :])
        kept = tuple(torch.cat(pair, -2) for pair in zip(held, (key, value), strict=True))
        n, m = query.shape[-2], kept[0].shape[-2]
        if n > 1 or window is not None:
            seen = torch.ones(n, m, dtype=torch.bool, device=query.device).tril(m - n)
            seen = seen.triu(m - n - (window or m) + 1)
            if attn_mask is None:
                attn_mask = seen
            elif attn_mask.dtype == torch.bool:
                attn_mask = attn_mask & seen
            else:
                attn_mask = attn_mask.masked_fill(~seen, -torch.inf)
        return other.function(query, *kept, attn_mask=attn_mask, **options), kept

    held = {each.name: getattr(other, each.name) for each in fields(other)}
    right = StepSubject(**held | {"reading": replace(other.reading, causal=True)})
    return right.stepping(Step(step))
