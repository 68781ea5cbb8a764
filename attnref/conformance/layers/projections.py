"""The projections of a layer, made transparent: they return what is asked, whatever goes in.

What a projection's features mean is nothing but an order of them, which learning undoes; so any
order counts with which the layer's answer is the formula's.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn

from attnref.conformance.layers.construction import Shape
from attnref.conformance.subject import CheckError
from attnref.text import Text

WRAP = Text(
    "Wrap what it does between its projections in a function of query, key and value, or name a "
    "function make(width, heads) that returns a layer of that kind."
)
NOT_FOUND = Text(
    "function: {name}, made for {heads} heads of {width}, must have projections of the query, "
    "the key and the value, fused or not, and at most one of the output, but it has {there}. "
    "{wrap}"
)
GIVES = Text("{name} gives {roles}")
GIVES_AS = Text("{name} gives {roles} as {axes}")
PASSES = Text("{name} is passed through")
SAME = Text("its projections are the identity")
LENGTH_FIRST = Text("axes (n, b, h·d)")

NONE_FOUND = Text("no projections of query, key and value are found in it")

_ROLES = {
    "q": re.compile(r"(to|w|fc|lin|proj)?_?(q|quer(y|ies))s?(proj)?"),
    "k": re.compile(r"(to|w|fc|lin|proj)?_?(k|key)s?(proj)?"),
    "v": re.compile(r"(to|w|fc|lin|proj)?_?(v|value)s?(proj)?"),
}
_GATES = (1, 2, 3)
_ORDERS = ("rhd", "hrd", "rdh", "hdr", "drh", "dhr")  # r: query, key or value; h: heads


class Inseparable(CheckError):
    """A layer cannot be judged behind its projections; ``why`` says it in a clause."""

    def __init__(self, message: Text, why: Text) -> None:
        super().__init__(message)
        self.why = why


class Projections(NamedTuple):
    """The names of a layer's projections, and what each returns: "q", "kv", "qkv", ….

    ``order`` are the axes that are one in what the inputs' projections return, ``merged`` those
    in what the output's gets; ``batch_first`` is false of a layer that wants (n, b, width).
    """

    inputs: tuple[tuple[str, str], ...]
    output: str | None
    order: str = "rhd"
    merged: str = "hd"
    batch_first: bool = True

    def candidates(self) -> Iterator["Projections"]:
        """The same and all that may be meant by the same shapes, the usual first."""
        orders, merges = list(_ORDERS), ["hd", "dh"]
        if all(len(roles) == 1 for roles in self.roles):
            orders = ["rhd", "rdh"]  # the others are the same
        if not self.inputs:
            orders, merges = orders[:1], merges[:1]
        for batch_first, order, merged in itertools.product((True, False), orders, merges):
            for roles in itertools.product(*map(itertools.permutations, self.roles)):
                named = zip(self.names, map("".join, roles), strict=True)
                yield Projections(tuple(named), self.output, order, merged, batch_first)

    @property
    def roles(self) -> list[str]:
        """What the inputs' projections return."""
        return [roles for _, roles in self.inputs]

    @property
    def names(self) -> list[str]:
        """Those of the inputs' projections."""
        return [name for name, _ in self.inputs]

    def is_of_one(self) -> bool:
        """Whether the query comes out of the same matrix as others do."""
        return any("q" in roles and len(roles) > 1 for roles in self.roles)

    def transpose_batch(self, x: Tensor) -> Tensor:
        """Between (b, n, width) and the axes of the layer."""
        return x if self.batch_first else x.transpose(0, 1)

    def split(self, output: Tensor, heads: int) -> Tensor:
        """(b, n, width) as (b, h, n, d)."""
        *axes, width = output.shape
        if self.merged == "dh":
            return output.reshape(*axes, width // heads, heads).permute(0, 3, 1, 2)
        return output.reshape(*axes, heads, width // heads).transpose(1, 2)

    def describe(self) -> Text:
        """In words."""
        texts = [_gives(name, roles, self.order) for name, roles in self.inputs]
        if self.output is not None:
            texts.append(PASSES.fill({"name": self.output}))
        if not self.inputs:
            texts.append(SAME)
        if not self.batch_first:
            texts.append(LENGTH_FIRST)
        return Text.join(", ", texts)


IDENTITY = Projections((), None)
"""Where matrices are parameters that the layer reads itself, and query and key come apart."""


def _gives(name: str, roles: str, order: str) -> Text:
    if len(roles) == 1:
        return GIVES.fill({"name": name, "roles": roles})
    among = f"({', '.join(roles)})"
    if order == _ORDERS[0]:
        return GIVES.fill({"name": name, "roles": among})
    axes = ", ".join(str(len(roles)) if axis == "r" else axis for axis in order)
    return GIVES_AS.fill({"name": name, "roles": among, "axes": f"({axes})"})


def matrices(layer: nn.Module) -> dict[str, tuple[int, ...]]:
    """The names of all modules in it that multiply by a matrix, with its shape."""
    weights = {name: getattr(module, "weight", None) for name, module in layer.named_modules()}
    return {
        name: tuple(weight.shape)
        for name, weight in weights.items()
        if _is_matrix(weight) and not isinstance(layer.get_submodule(name), nn.Embedding)
    }


def _is_matrix(weight: object) -> TypeGuard[Tensor]:
    return isinstance(weight, Tensor) and weight.ndim == 2


def assign_roles(
    widths: Mapping[str, int], shape: Shape, layer: nn.Module, name: str
) -> Projections:
    """Which of the projections that were called does what.

    Args:
        widths: how many features each has returned for a position, in the order of the calls.
        shape: what the layer is made for.
        layer: it.
        name: what messages call it.

    Raises:
        Inseparable: with all that there are, when they are not those of attention.
    """
    queries, keys = shape.width, shape.key_heads * shape.head_width
    by_width = {queries + 2 * keys: "qkv", queries + keys: "qk", 2 * keys: "kv"}
    inputs: dict[str, str] = {}
    rest: list[str] = []
    for path, width in widths.items():
        roles = by_width.get(width) or _role(path)
        if roles == "kv" and queries == keys and re.search("qk(?!v)", path.lower()):
            roles = "qk"
        if roles is None:
            rest.append(path)
        else:
            inputs[path] = roles
    missing = [role for role in "qkv" if role not in "".join(inputs.values())]
    inputs |= dict(zip(rest, missing, strict=False))  # unnamed ones are called in this order
    rest = rest[len(missing) :]
    gates = {shape.heads * each for each in _GATES}  # of a head each, which stay as they are
    rest = [path for path in rest if widths[path] not in gates]
    fits = all(
        widths[path] == sum(queries if role == "q" else keys for role in roles)
        for path, roles in inputs.items()
    )
    if not fits or sorted("".join(inputs.values())) != ["k", "q", "v"] or len(rest) > 1:
        about = {
            "name": name,
            "heads": shape.heads,
            "width": shape.head_width,
            "there": ", ".join(f"{path} {each}" for path, each in matrices(layer).items()),
            "wrap": WRAP,
        }
        raise Inseparable(NOT_FOUND.fill(about), NONE_FOUND)
    return Projections(tuple(inputs.items()), _enclosing_sequence(rest[0], layer) if rest else None)


def _enclosing_sequence(path: str, layer: nn.Module) -> str:
    """The sequence of modules that it begins, or itself: what comes after is not attention."""
    around = path.rpartition(".")[0]
    sequence = layer.get_submodule(around)
    if around and isinstance(sequence, nn.Sequential) and path == f"{around}.0":
        return around
    return path


def _role(path: str) -> str | None:
    """By its name, the last part that says anything first."""
    for word in reversed(re.split(r"[._\d]+", path.lower())):
        for role, pattern in _ROLES.items():
            if pattern.fullmatch(word):
                return role
    return None


class Injection:
    """A layer whose projections return what they are given."""

    def __init__(self, layer: nn.Module, plan: Projections) -> None:
        self.layer = layer
        self.plan = plan
        self.given: dict[str, Tensor] = {}
        for name in plan.names:
            _set_forward(layer.get_submodule(name), self._returns(name))
        if plan.output is not None:
            _set_forward(layer.get_submodule(plan.output), lambda x: x)

    def _returns(self, name: str) -> Any:
        def forward(inputs: Tensor, *_: Any, **__: Any) -> Tensor:
            given = self.given[name]
            # Some flatten batch and positions before, or split the heads.
            same = inputs.shape[:-1] == given.shape[:-1]
            return given if same else given.reshape(*inputs.shape[:-1], -1)

        return forward

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, /, **inputs: Any) -> Any:
        """What it returns for the inputs, with its projections' outputs set: (b, n, h, d) each."""
        parts = {"q": query, "k": key, "v": value}
        for name, roles in self.plan.inputs:
            given = fuse([parts[role] for role in roles], self.plan.order)
            self.given[name] = self.plan.transpose_batch(given)
        try:
            return self.layer(**inputs)
        finally:
            self.given.clear()


def _set_forward(module: nn.Module, forward: Any) -> None:
    module.forward = forward  # an attribute of this module alone, weights and class stay


def fuse(parts: list[Tensor], order: str) -> Tensor:
    """Tensors (b, n, heads, d) as one (b, n, features), its features in that order.

    Examples:
        >>> q, k = torch.tensor([[[[1, 2], [3, 4]]]]), torch.tensor([[[[5, 6], [7, 8]]]])
        >>> fuse([q, k], "rhd").tolist(), fuse([q, k], "hrd").tolist()
        ([[[1, 2, 3, 4, 5, 6, 7, 8]]], [[[1, 2, 5, 6, 3, 4, 7, 8]]])
    """
    if order == "rhd":
        return torch.cat([x.flatten(2) for x in parts], -1)
    if order == "hrd":  # several heads of queries for one of keys come together
        groups = min(x.shape[2] for x in parts)
        split = [x.reshape(*x.shape[:2], groups, x.shape[2] // groups, x.shape[3]) for x in parts]
        return torch.cat(split, 3).flatten(2)
    stacked = torch.stack(parts, 2)  # (b, n, r, h, d)
    return stacked.permute(0, 1, *(2 + "rhd".index(axis) for axis in order)).flatten(2)


def set_identity(layer: nn.Module) -> nn.Module:
    """The same with matrices that change nothing, one below the other where they are one."""
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            times, rest = divmod(parameter.shape[0], parameter.shape[-1])
            if parameter.ndim == 2 and not rest:
                parameter.copy_(torch.eye(parameter.shape[-1]).repeat(times, 1))
            elif "bias" in name.rpartition(".")[2]:
                parameter.zero_()
    return layer
