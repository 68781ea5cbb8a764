"""Where a function has the axes of query, key and value, and how it is asked there."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref.conformance.draws import Draw
from attnref.conformance.packed import call_packed, pack_extra


class Layout(NamedTuple):
    """Where query, key and value have their axes; ``call`` asks a function of that layout.

    ``heads`` where they have an axis of their own. Not all are ``tried``: some are known by the
    signature.
    """

    axes: str
    call: Callable[..., Any]
    heads: bool = True
    tried: bool = True

    def arrange(self, extra: Tensor, axes: str) -> Tensor:
        """A tensor beside query, key and value, whose axes have these names, as theirs lie."""
        if self.axes.startswith("(b, n") and axes[:3] in ("bkn", "bhn"):
            return extra.transpose(1, 2)
        if self.axes.startswith("(Σ") and axes[:1] == "b":
            return pack_extra(extra, axes)
        if not self.heads and axes[:2] in ("bk", "bh"):
            return extra.flatten(0, 1)
        return extra

    def arrange_all(self, options: Mapping[str, Any], extras: Mapping[str, Draw]) -> dict[str, Any]:
        """The options of a call, with each drawn tensor arranged as query, key and value lie."""
        drawn = {
            name: self.arrange(options[name], draw.axes)
            for name, draw in extras.items()
            if isinstance(options.get(name), Tensor)
        }
        return {**options, **drawn}


def _map_first(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The first of what was returned, changed; the rest as it is."""
    if isinstance(output, tuple | list) and output and isinstance(output[0], Tensor):
        return (change(output[0]), *output[1:])
    return change(output) if isinstance(output, Tensor) else output


def _call(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    return function(*tensors, **options)


def _heads_third(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    output = function(*(x.transpose(1, 2) for x in tensors), **options)
    return _map_first(output, lambda x: x.transpose(1, 2) if x.ndim == 4 else x)


def _heads_third_after(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    output = function(*tensors, **options)
    return _map_first(output, lambda x: x.transpose(1, 2) if x.ndim == 4 else x)


def _heads_in_batch(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    query, key, _ = tensors
    mask = options.get("attn_mask")
    if mask is not None and mask.ndim > 2:
        full = mask.expand(*query.shape[:2], query.shape[-2], key.shape[-2])
        options["attn_mask"] = full.flatten(0, 1)
    output = function(*(x.flatten(0, 1) for x in tensors), **options)
    return _map_first(
        output, lambda x: x.reshape(*query.shape[:2], *x.shape[1:]) if x.ndim == 3 else x
    )


def _length_first(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    def transposed(*inputs: Tensor, **others: Any) -> Any:
        output = function(*(x.transpose(0, 1) for x in inputs), **others)
        return _map_first(output, lambda x: x.transpose(0, 1) if x.ndim == 3 else x)

    return _heads_in_batch(transposed, *tensors, **options)


def _matrices(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    query, key, value = tensors
    mask, outputs = options.pop("attn_mask", None), []
    for sample, head in itertools.product(*map(range, query.shape[:2])):
        if mask is not None:
            full = mask.expand(*query.shape[:2], query.shape[-2], key.shape[-2])
            options["attn_mask"] = full[sample, head]
        found = function(query[sample, head], key[sample, head], value[sample, head], **options)
        outputs.append(found[0] if isinstance(found, tuple | list) else found)
    if not outputs:
        return query.new_zeros(*query.shape[:-1], value.shape[-1])
    return torch.stack(outputs).reshape(*query.shape[:2], *outputs[0].shape)


TURNED = "bhnd>bnhd"
"""The one in which an output has other axes than its inputs."""

LAYOUTS: Mapping[str, Layout] = {
    "bhnd": Layout("(b, h, n, d)", _call),
    "bnhd": Layout("(b, n, h, d)", _heads_third),
    TURNED: Layout("(b, h, n, d) → (b, n, h, d)", _heads_third_after),
    "bnd": Layout("(b·h, n, d)", _heads_in_batch, heads=False),
    "nbd": Layout("(n, b·h, d)", _length_first, heads=False),
    "nd": Layout("(n, d)", _matrices, heads=False),
    "packed": Layout("(Σ n, h, d)", call_packed, tried=False),
}
"""By their names, in the order in which they are tried."""
