r"""Attention by hashing: each query meets the keys that were sorted next to it.

    h(x) = arg max [ xR; -xR ]

The rotation R is random, and vectors of similar direction mostly have the same hash.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref._autocast import own_precision
from attnref._door import check_generator, check_no_generator, check_tensors, enter, source_of
from attnref.checks import check_drawn, check_integer
from attnref.masks import Mask
from attnref.record import Example, Method
from attnref.softmax import Partial, merge, partial_attention

__all__ = ["lsh_attention", "random_rotations"]

_ROUNDS = 4  # where no rotations are given


def lsh_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    rotations: Tensor | None = None,
    generator: torch.Generator | None = None,
    block_size: int = 64,
) -> Tensor:
    r"""Softmax attention over the keys that in some round fall near the query by their hash.

        o_i = Σ_(j ∈ P_i) e^(s_ij) / (Σ_(l ∈ P_i) e^(s_il)) v_j
        P_i = ⋃_ρ {j : |⌊π_ρ(q_i)/C⌋ - ⌊π_ρ(k_j)/C⌋| ≤ 1}

    In round ``ρ`` queries and keys are each sorted by hash, equal ones by position;
    ``π_ρ`` is the place in that order and C the size of a block. A pair that meets in
    several rounds counts once.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., n, d_k)``, same dtype and device, as many as queries.
        value: ``(..., n, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: which keys count, bool or a mask of :mod:`attnref.masks`, ``(..., 1, n)``, such
            as ``masks.padding(lengths, n)``: the others
            keep their places when sorted, but have no weight.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i, positions being those before sorting.
        scale: the factor c; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        rotations: the R of each round, ``(rounds, d_k, buckets / 2)``, on the same device. The
            same ones give the same output. None draws those of four rounds, with a bucket for two
            blocks, by :func:`random_rotations`.
        generator: what draws them; None is one of seed 0, which draws the same at each call.
        block_size: the number C of tokens; about two blocks per bucket leave few keys behind.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``; zeros for a query that met no key, which
        happens if causal or under a mask.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Exact for the keys in ``P_i``: with ``δ_i`` the mass of softmax that the others
    have, ``|p_i-p̃_i|_1 = 2δ_i``, and the output moves by at most
    ``δ_i`` times the largest distance between two values. One more round never drops more;
    how much is dropped is not bounded, for hashes find equal directions, not large
    products. Reformer ties the key to ``query / |query|``, so that both are sorted alike and
    every query meets itself, and leaves that own key out wherever another is found; where
    queries and keys are spread differently over the buckets, blocks drift apart. If causal, later
    tokens have no weight, but are sorted among the others, and so decide too which of the
    earlier keys a query meets. A NaN or inf reaches the queries of its block and its neighbours,
    the earlier ones too. Hashing has no gradient; half precision is computed in float32.

    Time ``6 r n C (d_k + d_v)`` operations in r rounds, ``r n log n`` to sort and ``3 r² n C``
    comparisons to count pairs once; memory ``O(n (r + d_k + d_v))``, on a GPU ``O(n C)`` and with
    gradients r times that.

    Source: Kitaev et al. 2020, arXiv 2001.04451, section 2, with both neighbours of a block
    whatever their hash; hashing: Andoni et al. 2015, arXiv 1509.02897.

    Examples:
        >>> generator = torch.Generator().manual_seed(0)
        >>> tokens = torch.randn(8, 2, generator=generator)
        >>> rotations = random_rotations(2, 2, num_buckets=2, generator=generator)
        >>> lsh_attention(tokens, tokens, tokens, rotations=rotations, block_size=2).shape
        torch.Size([8, 2])
    """
    call = enter(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    *lead, n, m = call.shape
    if n != m:
        raise ValueError(
            f"key: expected {n} tokens, as query has, got {m}. Chunks of sorted queries and of "
            "sorted keys are set side by side: pad the shorter sequence, or use another method."
        )
    advice = "A query meets three times as many keys a round."
    block_size = check_integer("block_size", block_size, 1, advice)
    if rotations is None:
        source, buckets = source_of(generator), 2 * max(1, n // (2 * block_size))
        drawn = random_rotations(_ROUNDS, query.shape[-1], num_buckets=buckets, generator=source)
        rotations = drawn.to(query.device)
    else:
        check_no_generator(generator, "rotations")
    check_tensors(rotations=rotations)
    if rotations.dim() != 3 or rotations.shape[-2] != query.shape[-1] or not rotations.numel():
        raise ValueError(
            f"rotations: expected shape (rounds, {query.shape[-1]}, buckets / 2), got "
            f"{tuple(rotations.shape)}. Draw them with random_rotations(rounds, query.shape[-1], "
            "num_buckets=buckets, generator=generator)."
        )
    q, k, v = (x.expand(*lead, *x.shape[-2:]) for x in call.tensors())
    q = q * call.scale
    counts = call.key_mask()  # (..., n, 1)
    if counts is not None:
        k, v = k.masked_fill(~counts, 0.0), v.masked_fill(~counts, 0.0)
        counts = counts.squeeze(-1).expand(*lead, n)
    with own_precision(query.device):
        return _attend(q, k, v, counts, rotations, block_size, is_causal).to(query.dtype)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    counts: Tensor | None,
    rotations: Tensor,
    block_size: int,
    is_causal: bool,
) -> Tensor:
    """The rounds, merged, ``(..., n, d_v)``; ``counts`` says which keys have a weight."""
    # A negative factor turns queries round, and a large product then needs the opposite key.
    query_places = [_places(query, rotation) for rotation in rotations]  # rounds × (..., n)
    key_places = [_places(key, rotation) for rotation in rotations]

    attended: Partial | None = None
    for query_place, key_place in zip(query_places, key_places, strict=True):
        query_order, key_order = query_place.argsort(-1), key_place.argsort(-1)  # (..., n)
        position = key_order
        if counts is not None:  # a key without a place in the sequence is left out
            position = position.masked_fill(~counts.gather(-1, key_order), -1)
        met = _meet(
            _take(query, query_order),
            _take(key, key_order),
            _take(value, key_order),
            # Position and blocks of each token, one row each, in the order of this round.
            torch.stack(
                [query_order, *(p.gather(-1, query_order) // block_size for p in query_places)]
            ),
            torch.stack([position, *(p.gather(-1, key_order) // block_size for p in key_places)]),
            block_size,
            is_causal,
        )
        met = Partial(*(_take(rows, query_place) for rows in met))
        attended = met if attended is None else merge(attended, met)
    assert attended is not None  # there is a round
    return attended.output  # (..., n, d_v)


def random_rotations(
    num_rounds: int,
    head_dim: int,
    *,
    num_buckets: int,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    r"""Gaussian matrices to hash with, one per round.

    Args:
        num_rounds: how often tokens are hashed.
        head_dim: the d_k of query and key.
        num_buckets: the number of hashes, even; about n / block_size is usual.
        generator: source of the numbers; its device is that of the result.
        dtype: of the result.

    Returns:
        ``(num_rounds, head_dim, num_buckets / 2)``.

    Raises:
        TypeError, ValueError: for a number below 1, an odd number of buckets, or no generator.

    Source: Andoni et al. 2015, arXiv 1509.02897, with fewer columns than a rotation has, as in
    Kitaev et al. 2020, arXiv 2001.04451.

    Examples:
        >>> random_rotations(3, 5, num_buckets=8, generator=torch.Generator().manual_seed(0)).shape
        torch.Size([3, 5, 4])
    """
    advice = "Each column of a rotation makes two buckets, one on either side."
    num_rounds = check_integer("num_rounds", num_rounds, 1, advice)
    head_dim = check_integer("head_dim", head_dim, 1, advice)
    if check_integer("num_buckets", num_buckets, 2, advice) % 2:
        raise ValueError(f"num_buckets: expected an even number, got {num_buckets}. {advice}")
    check_generator(generator)
    check_drawn(dtype=dtype)
    shape = (num_rounds, head_dim, num_buckets // 2)
    return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)


def _places(tokens: Tensor, rotation: Tensor) -> Tensor:
    """Where each token comes when they are sorted by hash and position, ``(..., n)``."""
    projected = tokens.detach() @ rotation.to(tokens.dtype)  # (..., n, buckets / 2)
    bucket = torch.cat([projected, -projected], -1).argmax(-1)  # (..., n)
    return bucket.argsort(dim=-1, stable=True).argsort(-1)


def _take(tokens: Tensor, places: Tensor) -> Tensor:
    """The tokens ``(..., n, d)``, gathered from these places ``(..., n)``."""
    return torch.take_along_dim(tokens, places[..., None], -2)


def _meet(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_ids: Tensor,
    key_ids: Tensor,
    size: int,
    is_causal: bool,
) -> Partial:
    """Attention of sorted tokens to their block and its neighbours, a pair shared by its rounds."""
    n = query.shape[-2]
    chunks = max(1, -(-n // size))
    fill = chunks * size - n
    q = torch.unflatten(pad(query, (0, 0, 0, fill)), -2, (chunks, size))  # (..., chunks, C, d_k)
    row = torch.unflatten(pad(query_ids.int(), (0, fill)), -1, (chunks, size))
    # With a block before the first and one after the last, windows of three need no copies.
    k, v = (
        pad(tokens, (0, 0, size, size + fill)).unfold(-2, 3 * size, size) for tokens in (key, value)
    )  # (..., chunks, d, 3 C)
    column = pad(key_ids.int(), (size, size + fill), value=-1).unfold(-1, 3 * size, size)

    # A block and its scores fit a processor's cache. With gradients each piece would send back a
    # tensor of the whole size, and a GPU is only filled by all of them.
    alone = query.device.type == "cpu" and not torch.is_grad_enabled()
    step = 1 if alone else chunks
    parts = []
    for start in range(0, chunks, step):
        part = slice(start, start + step)
        i, *query_chunks = row[..., part, :, None]  # each (..., step, C, 1)
        j, *key_chunks = column[..., part, None, :]  # each (..., step, 1, 3 C)
        allowed = (j >= 0) & (j <= i) if is_causal else j >= 0
        rounds = zip(query_chunks, key_chunks, strict=True)
        meetings = torch.stack([(one - other).abs() <= 1 for one, other in rounds]).sum(0)
        # Fillings may meet in no round; they are forbidden anyway.
        bias = -meetings.clamp(min=1).to(q.dtype).log()  # (..., step, C, 3 C)
        scores = q[..., part, :, :] @ k[..., part, :, :] + bias  # (..., step, C, 3 C)
        scores = scores.masked_fill(~allowed, -torch.inf)
        parts.append(partial_attention(scores, v[..., part, :, :].mT))
    return Partial(
        *(torch.cat(rows, -3).flatten(-3, -2)[..., :n, :] for rows in zip(*parts, strict=True))
    )


def _rounds(given: Example) -> dict[str, Any]:
    """About two blocks a bucket, in four rounds."""
    size = 64 if given.m >= 256 else 4
    buckets = 2 * max(1, given.m // (2 * size))
    rotations = random_rotations(4, given.d_k, num_buckets=buckets, generator=given.generator)
    return {"rotations": rotations.to(given.query), "block_size": size}


def _one_chunk(given: Example) -> dict[str, Any]:
    return {
        "rotations": given.query.new_ones(1, given.d_k, 1),
        "block_size": given.all_keys,
    }


METHOD = Method(
    function=lsh_attention,
    page="variants/lsh",
    formula=None,
    example=_rounds,
    plain=_one_chunk,
    lengths="equal",
    peers=("reformer-pytorch",),
    masks="keys",
    isolates=("mask",),
    leaks=("query", "key"),
    tasks=("dense", "causal"),
)
