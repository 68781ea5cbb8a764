r"""Decoding from pages: a batch of sequences whose keys and values lie in one pool, in any order.

    K_j = pool[table[⌊j/P⌋], j mod P]

Some pages of all sequences are looked up at a time; what is found there is attention over these
keys, which the online softmax merges with the rest.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref import checks
from attnref._autocast import own_precision
from attnref._door import are_integers, check_neutral, check_tensors, enter, kind_of
from attnref.record import Example, Method
from attnref.reference import scaled_dot_product_attention
from attnref.softmax import Partial, merge, partial_attention

__all__ = ["paged_attention"]

# Keys, values and scores at a time: 2 MiB in float32, which the cache of a processor holds.
_NUMBERS = 512 * 1024


def paged_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_table: Tensor,
    lengths: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    r"""Softmax attention of the n newest tokens of each sequence to its own keys, found in pages.

        o_i = Σ_(j ≤ m-n+i) p_ij v_j
        (k_j, v_j) = pool[table[⌊j/P⌋], j mod P]

    For each sequence of m tokens, the same function as
    :func:`attnref.kv_cache_attention` of its keys in order. No sequence is
    put together as a whole, and none is padded to the longest: a sequence that has ended takes no
    further part.

    Args:
        query: ``(b, heads, n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(num_pages, P, key heads, d_k)``, same dtype and device: :attr:`PagedCache.keys`,
            or any pool.
        value: ``(num_pages, P, key heads, d_v)``, same dtype and device.
        block_table: ``(b, most pages)`` integers, the pages of each sequence in order. What
            comes after the last page that a length needs is not read.
        lengths: ``(b,)`` integers, the tokens of each sequence, the n newest included.
        attn_mask: None, for PyTorch's order of arguments.
        dropout_p: 0.0, likewise.
        is_causal: False, likewise.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 of the query counts heads, and consecutive query heads share a
            key head.

    Returns:
        ``(b, heads, n, d_v)`` in the dtype and on the device of ``query``. Where a sequence has
        fewer tokens than n, its first queries are those of no token and give zeros.

    Raises:
        TypeError, ValueError: as the reference does, and for a table or lengths of another shape,
            or that lead out of the pool.

    Exact up to rounding, in float32 or wider, in any order of the pages. A NaN or inf of one new
    token reaches the others of its sequence, but no other sequence, and what lies in a page beyond
    the length of a sequence reaches nobody. Differentiable, with derivatives of every order, as
    long as nobody writes to the pool: :class:`attnref.PagedCache` does.

    Time ``2 h n (d_k+d_v) Σ_s m_s`` operations, each length rounded up to the pages that
    are looked up together; memory beside the output about a million numbers, or some copies of
    one page of each sequence if that is more. Table and lengths are read by the processor: on a
    GPU, hand them over from the processor to avoid a wait.

    Source: Kwon et al. 2023, arXiv 2309.06180, section 4.1.

    Examples:
        >>> pool = torch.tensor([[3.0, 4.0], [1.0, 2.0], [9.0, 0.0]])[..., None, None]
        >>> query, table = torch.zeros(2, 1, 1, 1), torch.tensor([[1, 0], [2, -1]])
        >>> paged_attention(query, pool, pool, table, torch.tensor([3, 1])).flatten()
        tensor([2., 9.])
    """
    advice = "A new token sees all of its sequence up to itself."
    check_neutral(advice, attn_mask=attn_mask, is_causal=is_causal)
    table, lengths = _check_inputs(query, key, value, block_table, lengths)
    # A pool has no batch, and its places come before its heads: one page tells all the rest.
    page = key[:1].transpose(1, 2), value[:1].transpose(1, 2)  # (1, key heads, P, d)
    call = enter(query, *page, None, dropout_p, False, scale, enable_gqa)
    batch, heads, n, _ = call.shape
    # The queries of all heads that share a key head are the queries of one head.
    rows = heads // key.shape[2] * n if heads else n
    query = query.expand(batch, heads, n, -1).to(call.dtype) * call.scale
    query = query.reshape(batch, key.shape[2], rows, query.shape[-1])
    with own_precision(query.device):
        output = _attend(query, key, value, table, lengths, n)  # (b, key heads, r n, d_v)
    return output.reshape(batch, heads, n, value.shape[-1]).to(key.dtype)


def _attend(
    query: Tensor, key: Tensor, value: Tensor, table: Tensor, lengths: Tensor, n: int
) -> Tensor:
    """The output ``(b, key heads, r n, d_v)``, some pages of all sequences at a time."""
    batch, heads, rows, d_k = query.shape
    size, d_v = value.shape[1], value.shape[-1]
    # The longest sequence first: those that have ended are then always the last ones.
    lengths, order = lengths.sort(descending=True)
    table, ends = table[order], lengths.tolist()
    order, table, lengths = (x.to(query.device) for x in (order, table, lengths))
    query = query[order]
    if not any(ends):  # sums of nothing, which have gradients too
        none = (x[:0].flatten(0, 1).transpose(0, 1).to(query.dtype) for x in (key, value))
        keys, values = none  # (key heads, 0, d_k), (key heads, 0, d_v)
        return query @ keys.mT @ values
    newest = torch.arange(n, device=lengths.device).repeat(rows // max(n, 1))  # (r n,)
    sees = (lengths[:, None] - n + newest)[:, None, :, None]  # (b, 1, r n, 1), the last key
    part = Partial(
        query.new_zeros(batch, heads, rows, d_v),
        query.new_full((batch, heads, rows, 1), -torch.inf),
        query.new_zeros(batch, heads, rows, 1),
    )
    ended, page = [], 0
    while True:
        first = page * size
        live = sum(end > first for end in ends)
        ended.append(part.output[live:])
        part = Partial(*(x[:live] for x in part))
        if not live:
            break
        numbers = live * heads * size * (d_k + d_v + rows)  # for one page of each sequence
        pages = table[:live, page : page + max(1, _NUMBERS // max(numbers, 1))]
        keys, values = (
            _read_pages(pool, pages, [end - first for end in ends[:live]]).to(query.dtype)
            for pool in (key, value)
        )  # (live, key heads, places, d)
        scores = query[:live] @ keys.mT  # (live, key heads, r n, places)
        j = torch.arange(first, first + scores.shape[-1], device=lengths.device)
        scores = scores.masked_fill(j > sees[:live], -torch.inf)
        part = merge(part, partial_attention(scores, values))
        page += pages.shape[1]
    return torch.cat(ended[::-1])[order.argsort()]


def _read_pages(pool: Tensor, pages: Tensor, ends: list[int]) -> Tensor:
    """What the pages of each sequence hold, ``(b, key heads, places, d)``, and zeros after it."""
    rows = pool.index_select(0, pages.flatten()).view(*pages.shape, *pool.shape[1:]).flatten(1, 2)
    for sequence, end in enumerate(ends):
        if end < rows.shape[1]:  # the next places are of nobody, or of other sequences
            rows[sequence, end:] = 0.0
    return rows.transpose(1, 2)


def _check_inputs(
    query: Tensor, key: Tensor, value: Tensor, block_table: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """The table and the lengths, on the device of the query, with nothing that is not used."""
    check_tensors(query=query, key=key, value=value)
    for name, tensor, wanted in (
        ("query", query, "(b, heads, n, d_k)"),
        ("key", key, "(num_pages, block_size, key heads, d_k)"),
        ("value", value, "(num_pages, block_size, key heads, d_v)"),
    ):
        if tensor.dim() != 4:
            raise ValueError(
                f"{name}: expected shape {wanted}, got {tuple(tensor.shape)}. Keys and values come "
                "as the whole pool, and queries as a batch of sequences."
            )
    if 0 in key.shape[:2]:
        raise ValueError(
            f"key: expected at least one page with a place in it, got {tuple(key.shape)}. Its "
            "dimensions are (num_pages, block_size, key heads, d_k)."
        )
    checks.check_value(key.shape, value.shape)
    for name, tensor, dimensions in (("block_table", block_table, 2), ("lengths", lengths, 1)):
        whole = are_integers(tensor)
        fits = whole and tensor.dim() == dimensions and len(tensor) == len(query)
        shape = f"({len(query)}, most pages)" if dimensions == 2 else f"({len(query)},)"
        advice = "Each sequence of query has a row; PagedCache.block_table gives both."
        checks.check_integers(name, shape, kind_of(tensor), advice, whole=whole, fits=fits)
    if torch.compiler.is_compiling():
        raise ValueError(
            "lengths: expected a call outside torch.compile(fullgraph=True) and torch.export, got "
            "one that is traced. The lengths are values, which a graph does not hold: leave the "
            "call out of it with torch.compiler.disable."
        )
    # Counted on from here: 8 bits would not hold the places, and not all integers are an index.
    block_table, lengths = block_table.long(), lengths.long()
    size, ends = key.shape[1], lengths.tolist()
    room = block_table.shape[1] * size
    if ends and not 0 <= min(ends) <= max(ends) <= room:
        raise ValueError(
            f"lengths: expected numbers between 0 and {room}, the places of {block_table.shape[1]} "
            f"pages of {size}, got {ends}. Append first, then take table and lengths again."
        )
    pages = -(-lengths // size)
    used = torch.arange(block_table.shape[1], device=lengths.device) < pages[:, None]
    table = block_table.to(lengths.device).masked_fill(~used, 0)
    if table.numel() and not bool(((table >= 0) & (table < len(key))).all()):
        raise ValueError(
            f"block_table: expected pages between 0 and {len(key) - 1}, of the {len(key)} of the "
            f"pool, got {table.amin()} to {table.amax()} among those that the lengths need. A "
            "table belongs to one pool: take it from the cache whose pages are passed."
        )
    most = int(pages.max()) if ends else 0
    return table[:, :most], lengths


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_table: Tensor,
    lengths: Tensor,
    **options: Any,
) -> Tensor:
    """The definition of each sequence, put together from its pages."""
    places = block_table.clamp(min=0).to(key.device)
    keys, values = (pool[places].flatten(1, 2).transpose(1, 2) for pool in (key, value))
    n, m = query.shape[-2], keys.shape[-2]
    newest = lengths.to(query.device)[:, None] - n + torch.arange(n, device=query.device)
    seen = torch.arange(m, device=query.device) <= newest[..., None]  # (b, n, m)
    return scaled_dot_product_attention(query, keys, values, seen[:, None], **options)


def _pages(given: Example) -> dict[str, Any]:
    """Pages of two tokens in any order, one of which is nobody's."""
    (b, _, m, _), count = given.key.shape, -(-given.m // 2)
    device = given.generator.device
    order = torch.randperm(b * count + 1, generator=given.generator, device=device).cpu()
    pools = {}
    for name, side in (("key", given.key), ("value", given.value)):
        filled = pad(side, (0, 0, 0, 2 * count - m)).transpose(1, 2)  # (b, 2 pages, heads, d)
        pages = torch.unflatten(pad(filled.flatten(0, 1), (0, 0, 0, 0, 0, 2)), 0, (-1, 2))
        pools[name] = pages[order.argsort()]
    return {**pools, "block_table": order[:-1].view(b, count), "lengths": torch.full((b,), m)}


def _several_lengths(given: Example) -> dict[str, Any]:
    """The last text is shorter."""
    arguments = _pages(given)
    arguments["lengths"][-1:] -= min(given.m, 1)
    return arguments


def _one_text_a_query(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """Pages of one token; each query is the newest token in its own text."""
    (b, heads, n, d_k), m = query.shape, key.shape[-2]
    keys, values = (side.transpose(1, 2).flatten(0, 1)[:, None] for side in (key, value))
    table = torch.arange(b * m).view(b, m).repeat_interleave(n, 0)
    alone = query.transpose(1, 2).reshape(b * n, heads, 1, d_k)
    found = paged_attention(alone, keys, values, table, torch.full((b * n,), m), **options)
    return found.view(b, n, heads, -1).transpose(1, 2)


METHOD = Method(
    function=paged_attention,
    page="variants/paged",
    formula=_formula,
    neutral=("attn_mask", "is_causal", "dropout_p"),
    example=_several_lengths,
    plain=_pages,
    adapted=_one_text_a_query,
    lengths="newest",
    dimensions=4,
    causal=True,
    isolates=(),
    tasks=("paged",),
)
