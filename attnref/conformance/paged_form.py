"""Functions of a paged cache: keys in pages of memory, and a table that says which come when."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

_TABLE = re.compile(r"(block|page)_tables?|page_indices")
_LENGTHS = re.compile(r"cache_seqlens|seq_?lens(_k)?|kv_lens|context_lens|seqused_k|cache_lens")
_PAGE = 4  # keys in a page, the last of which is seldom full


def paging(signature: inspect.Signature) -> dict[str, str]:
    """What stands for the table and for the lengths, ``table`` and ``lengths``; nothing if none.

    Examples:
        >>> def attention(q, k_cache, v_cache, block_table, cache_seqlens): ...
        >>> paging(inspect.signature(attention))
        {'table': 'block_table', 'lengths': 'cache_seqlens'}
    """
    found: dict[str, str] = {}
    for name in list(signature.parameters)[3:]:
        for kind, names in (("table", _TABLE), ("lengths", _LENGTHS)):
            if names.fullmatch(name):
                found.setdefault(kind, name)
    return found if "table" in found else {}


def adapt_paged(
    function: Callable[..., Any], signature: inspect.Signature, names: Mapping[str, str]
) -> tuple[Callable[..., Any], inspect.Signature]:
    """It for keys and values ``(b, h, m, d)``, which it gets in pages ``(pages, 4, h, d)``.

    The pages lie in another order than that of the table, one of another sequence between them,
    and what lies behind a sequence in its last page are numbers that must not count.
    """

    @functools.wraps(function)
    def attention(
        query: Tensor, key: Tensor, value: Tensor, heads_third: bool = False, **options: Any
    ) -> Any:
        if heads_third:
            key, value = key.transpose(1, 2), value.transpose(1, 2)
        b, _, m, _ = key.shape
        count = -(-m // _PAGE)
        order = torch.arange(b * count, device=key.device).flip(0).reshape(b, count) + 1
        paged = [_pages(x, order) for x in (key, value)]
        lengths = options.pop("key_lengths", None)
        if "lengths" in names:
            full = torch.full((b,), m, device=key.device)
            options[names["lengths"]] = (full if lengths is None else lengths).to(torch.int32)
        return function(query, *paged, **{names["table"]: order}, **options)

    kept = [
        each if place < 3 else each.replace(kind=each.KEYWORD_ONLY)
        for place, each in enumerate(signature.parameters.values())
        if each.name not in names.values()
    ]
    if "lengths" in names:
        lengths = inspect.Parameter("key_lengths", inspect.Parameter.KEYWORD_ONLY, default=None)
        kept.append(lengths)
    kept.sort(key=lambda each: each.kind)
    return attention, signature.replace(parameters=kept)


def _pages(tensor: Tensor, order: Tensor) -> Tensor:
    """Its positions in pages at these places, the first of which is another sequence's."""
    _, h, m, d = tensor.shape
    missing = order.shape[1] * _PAGE - m
    whole = torch.nn.functional.pad(tensor, (0, 0, 0, missing), value=3.0)
    pages = whole.transpose(1, 2).reshape(-1, _PAGE, h, d)  # (b · count, page, h, d)
    memory = tensor.new_full((len(pages) + 1, _PAGE, h, d), -3.0)
    memory[order.flatten()] = pages
    return memory
