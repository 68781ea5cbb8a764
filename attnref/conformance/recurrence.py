"""Recurrences with a state: the gated delta rule and what it holds, as a reference in float64."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from attnref.conformance.draws import GATES, Draw
from attnref.text import Text

if TYPE_CHECKING:
    from attnref.conformance.trial import Trial

RULE = Text("a recurrence: {parts}")
PARTS = {
    "delta": Text("the delta rule"),
    "sum": Text("a sum of k·v^T"),
    "decay": Text("with decay"),
    "q": Text("queries of length 1"),
    "k": Text("keys of length 1"),
    "unscaled": Text("not scaled"),
    "measured": Text("with constants that its answers show"),
}
_NEAR = 1e-3


class Recurrence(NamedTuple):
    """S ← a S; S ← S + β k (v - Sᵀk)ᵀ, or + β k vᵀ without ``delta``; o = c Sᵀ q.

    ``gates`` are parameters of the function, by kind; without any its rate and decay are constants
    of each head, ``(h,)``.
    """

    factor: float | None = None  # None is 1/sqrt(d_k)
    unit: str = ""  # which of q and k are made so long
    delta: bool = True
    gates: Mapping[str, str] = {}
    decay: Tensor | None = None
    rate: Tensor | None = None

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, **given: Tensor) -> Tensor:
        """The output, token by token."""
        return recur(*self.inputs(query, key, value, given), delta=self.delta)

    def inputs(
        self, query: Tensor, key: Tensor, value: Tensor, given: Mapping[str, Any]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """What a step takes: query with its factor, key, value, decay and rate, per position."""
        query, key = (
            torch.nn.functional.normalize(x, dim=-1) if name in self.unit else x
            for name, x in (("q", query), ("k", key))
        )
        query = query * (query.shape[-1] ** -0.5 if self.factor is None else self.factor)
        like = key[..., 0]  # (b, h, n)
        rate, decay = torch.ones_like(like), torch.ones_like(like)[..., None]
        for constant, kind in ((self.rate, "rate"), (self.decay, "decay")):
            if constant is not None:
                given = {**given, kind: constant[:, None].expand(like.shape[1:])}
        names = {**self.gates, **{kind: kind for kind in GATES if kind in given}}
        for kind, name in names.items():
            gate = given[name].to(key.dtype)
            if kind == "rate":
                rate = gate.expand_as(like)
            else:
                gate = gate.exp() if kind == "log_decay" else gate
                decay = gate if gate.ndim > 3 else gate.expand_as(like)[..., None]
        group = query.shape[1] // key.shape[1]
        shared = (x.repeat_interleave(group, 1) for x in (key, value, decay, rate))
        key, value, decay, rate = shared if group > 1 else (key, value, decay, rate)
        return query, key, value, decay, rate

    @property
    def measured(self) -> bool:
        """Whether its constants are those that its answers show."""
        return self.rate is not None

    def line(self) -> tuple[Text, dict[str, object]]:
        """It in words."""
        said = [PARTS["delta" if self.delta else "sum"]]
        said += (
            [PARTS["decay"]]
            if {"decay", "log_decay"} & {*self.gates} or self.decay is not None
            else []
        )
        said += [PARTS[name] for name in self.unit]
        said += [PARTS["unscaled"]] * (self.factor == 1.0)
        said += [PARTS["measured"]] * self.measured
        return RULE, {"parts": Text.join(", ", said)}


def recur(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    rate: Tensor,
    *,
    delta: bool = True,
    how: str = "",
    state: Tensor | None = None,
) -> Tensor:
    """The outputs ``(b, h, n, d_v)``, in one of the ways of :data:`WAYS`, or right."""
    if state is None:
        state = key.new_zeros(*key.shape[:2], key.shape[-1], value.shape[-1])
    outputs = []
    for t in range(query.shape[-2]):
        q, k, v = (x[..., t : t + 1, :] for x in (query, key, value))
        faded = state if how == "no decay" else decay[..., t, :, None] * state
        told = k @ (state if how == "error first" else faded)
        error = v - told if delta and how != "no error" else v
        written = (1.0 if how == "no rate" else rate[..., t, None, None]) * k.mT @ error
        if how == "decay last":
            faded, written = decay[..., t, :, None] * (state + written), 0.0 * written
        state = faded + written
        outputs.append(q @ (faded if how == "read first" else state))
    return (
        torch.cat(outputs, -2) if outputs else query.new_zeros(*query.shape[:-1], value.shape[-1])
    )


def within_chunks(*inputs: Tensor, delta: bool = True) -> Tensor:
    """As if nothing faded inside of a chunk: what is written counts in full."""
    query, key, value, decay, rate = inputs
    state = key.new_zeros(*key.shape[:2], key.shape[-1], value.shape[-1])
    written = []
    for t in range(query.shape[-2]):
        k, v = key[..., t : t + 1, :], value[..., t : t + 1, :]
        state = decay[..., t, :, None] * state
        new = rate[..., t, None, None] * (v - k @ state if delta else v)
        state = state + k.mT @ new
        written.append(new)
    return (query @ key.mT).tril() @ torch.cat(written, -2)


WAYS: Mapping[Text, str | Callable[..., Tensor]] = {
    Text(
        "the error v - S^T k were computed before the state decays; let it decay first"
    ): "error first",
    Text("nothing decayed: the gate has no effect"): "no decay",
    Text("nothing were corrected: k·v^T is added as it is, without v - S^T k"): "no error",
    Text("the rate had no effect: all is corrected in full"): "no rate",
    Text("the state decayed after the new key is written; it must decay before"): "decay last",
    Text("the state were read before the new key is written"): "read first",
    Text(
        "nothing faded between the positions of a chunk: its mask must hold the decay, not 1"
    ): within_chunks,
}
"""Known ways to be wrong."""


_FIRST = 3  # positions, within the first chunk of whatever size


def explain(inputs: tuple[Tensor, ...], got: Tensor, delta: bool) -> Text | None:
    """The way that gives ``got`` at its first positions, None when none is known."""
    inputs = tuple(x[:, :, :_FIRST] for x in inputs)
    got, right = got[..., :_FIRST, :], recur(*inputs, delta=delta)
    if bool(((right - got).abs() <= _NEAR * (1 + right.abs())).all()):
        return None
    for text, way in WAYS.items():
        how = "" if callable(way) else way
        made = way(*inputs, delta=delta) if callable(way) else recur(*inputs, delta=delta, how=how)
        if bool(((made - got).abs() <= _NEAR * (1 + made.abs())).all()):
            return text
    return None


def gates_of(extras: Mapping[str, Draw]) -> dict[str, str]:
    """The parameters that are gates of a recurrence, by kind."""
    return {draw.kind: name for name, draw in extras.items() if draw.kind in GATES}


class Unclear(Exception):
    """The answers are not those of a recurrence of this kind."""


_SAME = 1e-2


def measure(trial: "Trial", heads: int, width: int) -> Recurrence:
    """The recurrence that its answers show, for so many heads of a width.

    With v written for k, a query along k reads what the rate and the factor leave of it; those of
    later positions tell what fades, and the same key again, whether what k held is corrected. That
    is read far behind, for within a chunk there may be faults, which are to be found.

    Raises:
        Unclear: where they show none.
    """
    extras = trial.subject.extras
    gates = gates_of(extras)
    if width < 2:
        raise Unclear

    def read(again: bool = False, sizes: tuple[float, float] = (1.0, 1.0)) -> Tensor:
        output = trial.call(*_positions(heads, width, again, sizes))[0]  # (h, n, d_v)
        if not bool(((output - output[..., :1]).abs() <= _SAME**2 * (1 + output.abs())).all()):
            raise Unclear
        return output[..., 0]

    fading, twice = read(), read(again=True)
    once, faded, left = fading[:, 0], fading[:, -1], twice[:, -1]
    if not bool((once.abs() > _SAME**2).all() and (faded.abs() > 0).all()):
        raise Unclear
    longer = {"q": read(sizes=(2.0, 1.0))[:, 0], "k": read(sizes=(1.0, 2.0))[:, 0]}
    unit = "".join(name for name, found in longer.items() if _is_close(found, once))
    # What a single key gives grows with both, where softmax would let other keys have their share.
    if not all(name in unit or _is_close(found, 2 * once) for name, found in longer.items()):
        raise Unclear
    delta = not _is_close(left / faded, torch.ones_like(once))
    if gates:
        pair = _positions(heads, width, False, (1.0, 1.0))
        given = {name: draw.tensor(*pair[:2]) for name, draw in extras.items()}
        factor = once / Recurrence(gates=gates).inputs(pair[0], pair[1], pair[2], given)[4][0, :, 0]
        found = Recurrence(unit=unit, delta=delta or "rate" in gates, gates=gates)
    else:
        kept = (fading[:, 1:] / fading[:, :-1]).median(-1).values.clamp(min=0.0)
        rate = 1 - left / faded if delta else torch.ones_like(once)
        if not bool(((rate > 0) & rate.isfinite()).all()):
            raise Unclear
        factor = once / rate
        found = Recurrence(unit=unit, delta=delta, decay=kept, rate=rate)
    if _is_close(factor, torch.full_like(factor, width**-0.5)):
        return found
    mean = float(factor.mean())
    if not _is_close(factor, torch.full_like(factor, mean)):
        raise Unclear
    return found._replace(factor=1.0 if abs(mean - 1) < _SAME else mean)


_FAR = 67  # behind chunks of 64


def _positions(heads: int, width: int, again: bool, sizes: tuple[float, float]) -> list[Tensor]:
    """Queries along one axis; a key there at first, and at last ``again``, zeros in between."""
    axis = torch.eye(width, dtype=torch.float64)[0]
    place = torch.arange(_FAR)[:, None]
    value = (place == 0).double().expand(1, heads, -1, width)
    held = (place == 0) | ((place == _FAR - 1) & again)
    query, key = (
        size * (axis * where).expand(1, heads, -1, -1)
        for size, where in zip(sizes, (place >= 0, held), strict=True)
    )
    return [query.contiguous(), key.contiguous(), value.contiguous()]


def _is_close(one: Tensor, other: Tensor) -> bool:
    return bool(((one - other).abs() <= _SAME * (1e-2 + other.abs())).all())
