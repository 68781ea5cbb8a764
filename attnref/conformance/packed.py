"""Functions of packed sequences: one after the other, with the positions at which each begins."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

_KINDS = {
    "cu_seqlens": re.compile(r"cu_?seq(?:_?len)?s?(?:_(?P<side>q|kv?))?"),
    "max_seqlen": re.compile(r"max_?(?:s|seq_?len)?s?(?:_(?P<side>q|kv?))?"),
}
_NAMES = tuple(f"{kind}_{side}" for kind in _KINDS for side in "qk")
_OTHERS = 3  # positions of a sequence that lies between those that are asked about
SIDES = ("before", "after")


def packing(signature: inspect.Signature) -> dict[str, str]:
    """What stands for the packing, by FlashAttention's names; nothing where nothing does.

    Examples:
        >>> def attention(q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, causal=False): ...
        >>> list(packing(inspect.signature(attention)).values())
        ['cu_seqlens_q', 'cu_seqlens_k', 'max_seqlen_q', 'max_seqlen_k']
    """
    found = {}
    for own in list(signature.parameters)[3:]:
        for kind, names in _KINDS.items():
            match = names.fullmatch(own)
            if match is not None:
                found[own] = f"{kind}_{(match['side'] or 'q')[0]}"
    return found if "cu_seqlens_q" in found.values() else {}


def adapt_packed(
    function: Callable[..., Any], signature: inspect.Signature, names: Mapping[str, str]
) -> tuple[Callable[..., Any], inspect.Signature]:
    """It by FlashAttention's names for the packing, and its signature without them."""

    @functools.wraps(function)
    def attention(*tensors: Any, **options: Any) -> Any:
        known = {own: options[theirs] for own, theirs in names.items()}
        starts, others = options["cu_seqlens_q"], options["cu_seqlens_k"]
        if "cu_seqlens_k" not in names.values() and not torch.equal(starts, others):
            raise ValueError("key: expected the lengths of query, since both have one cu_seqlens")
        others = {name: each for name, each in options.items() if name not in _NAMES}
        return function(*tensors, **known, **others)

    kept = [
        each
        if place < 3 or each.kind is not each.POSITIONAL_OR_KEYWORD
        else each.replace(kind=each.KEYWORD_ONLY)
        for place, each in enumerate(signature.parameters.values())
        if each.name not in names
    ]
    kept.sort(key=lambda each: each.kind)
    return attention, signature.replace(parameters=kept)


def call_packed(
    function: Callable[..., Any], *tensors: Tensor, changed: str | None = None, **options: Any
) -> Any:
    """Asks it with ``(b, h, n, d)``; between the sequences lie shorter ones, which none may see.

    Those ``"before"`` the first or ``"after"`` the last may be ``changed``, or all ``"longer"``.
    """
    query, key, _ = tensors
    (b, _, n, _), m = query.shape, key.shape[-2]
    others = _OTHERS + (max(n, m) if changed == "longer" else 0)
    packed = [_pack(x, others) for x in tensors]
    if changed in SIDES:
        place = slice(_OTHERS) if changed == "before" else slice(-_OTHERS, None)
        for x in (*packed, *(each for each in options.values() if isinstance(each, Tensor))):
            if x.is_floating_point() and len(x) in map(len, packed):
                x[place] = -0.5
    output = function(
        *packed,
        **options,
        cu_seqlens_q=_beginnings(b, n, others, query.device),
        cu_seqlens_k=_beginnings(b, m, others, query.device),
        max_seqlen_q=max(n, others),
        max_seqlen_k=max(m, others),
    )
    found = output[0] if isinstance(output, tuple | list) and output else output
    if not isinstance(found, Tensor) or found.shape[:1] != (others + b * (n + others),):
        return output  # as it is, for those who tell of shapes
    apart = found[others:].reshape(b, n + others, *found.shape[1:])[:, :n]  # (b, n, h, d)
    return apart.transpose(1, 2) if apart.ndim == 4 else apart


def _pack(tensor: Tensor, length: int) -> Tensor:
    """Its sequences, with others before, between and after them, ``(n_1 + n_2 + …, h, d)``."""
    b, h, _, d = tensor.shape
    others = tensor.new_ones(b + 1, length, h, d)
    asked = torch.cat([tensor.transpose(1, 2), others[1:]], 1)
    return torch.cat([others[0], asked.flatten(0, 1)])


def pack_extra(extra: Tensor, axes: str) -> Tensor:
    """Numbers per position (b, h, n, …), or per sequence, as these lie; zeros for the others."""
    if "n" not in axes:  # one for each sequence, (b, …)
        whole = extra.new_zeros(2 * len(extra) + 1, *extra.shape[1:])
        whole[1::2] = extra
        return whole
    moved = extra.movedim(axes.index("n"), 1)  # (b, n, h, …)
    b, _, *rest = moved.shape
    others = moved.new_zeros(b + 1, _OTHERS, *rest)
    return torch.cat([others[0], torch.cat([moved, others[1:]], 1).flatten(0, 1)])


def _beginnings(b: int, n: int, others: int, device: torch.device) -> Tensor:
    lengths = torch.tensor([0, others, *(n, others) * b], device=device)
    return lengths.cumsum(0).to(torch.int32)
