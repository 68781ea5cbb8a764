r"""Exact attention for packed sequences: each sees itself alone, and no padding is computed.

Sequences of the lengths ``n_1, n_2, …`` lie end to end in one row, and
``cu_seqlens`` = 0, n₁, n₁ + n₂, … are their borders.
"""

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from attnref import checks
from attnref._door import Call, are_integers, check_neutral, enter, kind_of
from attnref.record import Example, Method
from attnref.reference import scaled_dot_product_attention
from attnref.variants.blockwise import blockwise

__all__ = ["varlen_attention"]


def varlen_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    cu_seqlens_key: Tensor | None = None,
    sink: Tensor | float | None = None,
) -> Tensor:
    r"""Softmax attention within each of several packed sequences.

        o_i = Σ_(j ∈ S(i)) p_ij v_j
        S(i) = the keys of i's sequence

    The same function as :func:`attnref.scaled_dot_product_attention` under
    :func:`attnref.masks.packed`, which computes all pairs; here each run of neighbouring
    sequences of one length is one call, in most cases of PyTorch's fused kernel.

    Args:
        query: ``(..., tokens, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., tokens, d_k)``, same dtype and device.
        value: ``(..., tokens, d_v)``, same dtype and device, same leading dimensions as ``key``.
        cu_seqlens: ``(sequences + 1,)`` integers, the borders, from 0 to the number of tokens.
        attn_mask: None, for PyTorch's order of arguments.
        dropout_p: 0.0, likewise.
        is_causal: query i of a sequence sees its keys j <= i (top-left alignment).
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        cu_seqlens_key: the borders of the keys, one more than the sequences too; None means
            those of the queries.
        sink: a score for each head, as in :func:`attnref.scaled_dot_product_attention`.

    Returns:
        ``(..., tokens, d_v)`` in the dtype and on the device of ``query``; zeros for the queries
        of a sequence without keys.

    Raises:
        TypeError, ValueError: as the reference does, and for borders of another shape, number
            or order.

    Exact up to rounding. Unlike the reference, a NaN or inf in a value reaches every query of its
    sequence, the earlier ones too. Time ``2(d_k+d_v) Σ_s n_s m_s`` operations; memory some
    times that of the output, for no weights are held. The borders are read by the processor: on a
    GPU, hand over ``cu_seqlens`` from the processor to avoid a wait.

    Source: Krell et al. 2021, arXiv 2107.02027; the borders: Dao 2023, arXiv 2307.08691.

    Examples:
        >>> query, value = torch.zeros(1, 3, 1), torch.tensor([[[1.0], [3.0], [7.0]]])
        >>> varlen_attention(query, query, value, torch.tensor([0, 2, 3])).flatten()
        tensor([2., 2., 7.])
    """
    advice = "The borders are the mask; for more use blockwise_attention and masks.packed."
    check_neutral(advice, attn_mask=attn_mask)
    call = enter(query, key, value, None, dropout_p, is_causal, scale, enable_gqa, sink=sink)
    *_, tokens, key_tokens = call.shape
    rows = _borders("cu_seqlens", cu_seqlens, tokens)
    if cu_seqlens_key is None:
        columns = _borders("cu_seqlens", cu_seqlens, key_tokens)
    else:
        columns = _borders("cu_seqlens_key", cu_seqlens_key, key_tokens)
    if len(rows) != len(columns):
        raise ValueError(
            f"cu_seqlens_key: expected {len(rows)} borders, as many as cu_seqlens, got "
            f"{len(columns)}. A sequence without keys repeats its border."
        )
    return _attend(call, rows, columns)


def _attend(call: Call, rows: list[int], columns: list[int]) -> Tensor:
    """By the borders of the sequences among the queries, and among the keys."""
    lead = call.shape[:-2]
    heads = math.prod(lead)
    q, k, v = (
        x.expand(*lead, *x.shape[-2:]).reshape(1, heads, *x.shape[-2:])
        for x in call.tensors(call.query.dtype)
    )
    sink = call.sink if call.sink is None else call.sink.expand(*lead, 1, 1).reshape(heads, 1, 1)
    sizes = zip(itertools.pairwise(rows), itertools.pairwise(columns), strict=True)
    lengths = [(stop - start, end - first) for (start, stop), (first, end) in sizes]
    runs = [(n, m, len(list(group))) for (n, m), group in itertools.groupby(lengths)]
    # Split, not sliced: each slice would have a gradient as long as the whole row.
    queries = torch.split(q, [n * count for n, _, count in runs], -2)
    tokens = (torch.split(x, [m * count for _, m, count in runs], -2) for x in (k, v))
    outputs = [v[..., :0, :]] if not runs else []
    for (n, m, count), part, keys, values in zip(runs, queries, *tokens, strict=True):
        if n == 0 or m == 0:
            outputs.append(part @ keys.mT @ values)  # sums of nothing: zeros
            continue
        run = call._replace(
            query=_stack(part, count),
            key=_stack(keys, count),
            value=_stack(values, count),
            enable_gqa=False,
            shape=(count, heads, n, m),
            sink=sink,
        )
        output = blockwise(run)  # (count, heads, n, d_v)
        outputs.append(output.transpose(0, 1).flatten(1, 2)[None])  # (1, heads, count * n, d_v)
    return torch.cat(outputs, -2).reshape(*lead, call.shape[-2], call.value.shape[-1])


def _stack(tensor: Tensor, count: int) -> Tensor:
    """``(1, heads, count * n, d)`` as a batch of its sequences, ``(count, heads, n, d)``."""
    return tensor.reshape(
        tensor.shape[1], count, tensor.shape[-2] // count, tensor.shape[-1]
    ).transpose(0, 1)


def _borders(name: str, borders: Tensor, tokens: int) -> list[int]:
    whole = are_integers(borders)
    advice = "From lengths it is torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])."
    fits = whole and borders.dim() == 1
    checks.check_integers(
        name, "(sequences + 1,)", kind_of(borders), advice, whole=whole, fits=fits
    )
    if torch.compiler.is_dynamo_compiling():
        raise ValueError(
            f"{name}: expected a call outside torch.compile(fullgraph=True), got one that is "
            "traced. The borders are values, which a graph does not hold: leave the call out of "
            "it with torch.compiler.disable, or give masks.packed(lengths).block_mask() to "
            "FlexAttention."
        )
    places: list[int] = borders.tolist()
    if places[:1] != [0] or places[-1] != tokens or sorted(places) != places:
        raise ValueError(
            f"{name}: expected borders that rise from 0 to {tokens}, the number of tokens, got "
            f"{places}. {advice}"
        )
    return places


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    *,
    cu_seqlens_key: Tensor | None = None,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """The definition of one sequence after the other."""
    others = cu_seqlens if cu_seqlens_key is None else cu_seqlens_key
    rows, columns = (borders.diff().tolist() for borders in (cu_seqlens, others))
    pieces = [
        scaled_dot_product_attention(*parts, is_causal=is_causal, **options)
        for parts in zip(
            torch.split(query, rows, -2),
            torch.split(key, columns, -2),
            torch.split(value, columns, -2),
            strict=True,
        )
    ]
    return torch.cat(pieces, -2)


def _three(given: Example) -> dict[str, Any]:
    """Three sequences, one of which is empty."""
    return {"cu_seqlens": torch.tensor([0, given.n // 3, given.n // 3, given.n])}


def _one_sequence(given: Example) -> dict[str, Any]:
    return {
        "cu_seqlens": torch.tensor([0, given.n]),
        "cu_seqlens_key": torch.tensor([0, given.m]),
    }


METHOD = Method(
    function=varlen_attention,
    page="variants/varlen",
    formula=_formula,
    neutral=("attn_mask", "dropout_p"),
    example=_three,
    plain=_one_sequence,
    lengths="equal",
    isolates=(),
    tasks=("packed",),
)
