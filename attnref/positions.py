r"""Positions: how attention, which sees a set, is told the order of its tokens.

Added to the embeddings: :func:`sinusoidal` (fixed) and :class:`LearnedPositions`. Turning
query and key: :func:`rotary`, :func:`rotary_half_split`. Added to the scores: :func:`alibi`, and
what is learned for the :func:`distances`, often in :func:`relative_buckets`.
Each forms positions and angles in float64 and rounds last, whatever dtype is asked for:
bfloat16 holds only the integers up to 256, so that the positions 256 and 257 would be one.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attnref import checks

__all__ = [
    "LearnedPositions",
    "alibi",
    "alibi_slopes",
    "distances",
    "from_half_split",
    "relative_buckets",
    "rotary",
    "rotary_half_split",
    "sinusoidal",
    "to_half_split",
]


def sinusoidal(
    length: int,
    dim: int,
    *,
    base: float = 10_000.0,
    offset: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    r"""A fixed table of sines and cosines, one row per position, to be added to the embeddings.

        PE_(t,2i) = sin(ω_i t), PE_(t,2i+1) = cos(ω_i t)
        ω_i = base^(-2i/d)

    Two rows differ by ``|PE_t - PE_s|² = 2 Σ_i (1 - cos ω_i(t - s))``, which
    depends on the distance of their positions only.

    Args:
        length: number of positions, n.
        dim: even width of the embedding, d.
        base: positive; sets the slowest frequency, ``base^(-(d-2)/d)``.
        offset: position of the first row.
        dtype: of the result, rounded to it once, at the end.
        device: where the result lives.

    Returns:
        ``(n, d)``: sines in the even columns, cosines in the odd ones.

    Raises:
        ValueError: for an odd width, a negative length or offset.

    Exact to one rounding to ``dtype`` and the float64 angle, off by ``1e-16 t``. Time and
    memory ``O(n d)``.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.5.

    Examples:
        >>> sinusoidal(2, 4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    angles = _angles(length, dim, base, offset, device)  # (n, d/2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(dtype)  # (n, d)


class LearnedPositions(nn.Module):
    r"""A learned table, one row per position, to be added to the embeddings.

        x_t ↦ x_t + P_t
        P ∈ ℝ^(n_max × d)

    Args:
        max_length: number of rows; there is no position after the last one.
        dim: width of the embedding, d.
        std: standard deviation of the normal distribution that the rows are drawn from.
        generator: source of the random numbers, None = PyTorch's global one.
        device, dtype: of the table.

    Raises:
        TypeError: for a generator that is none, or a dtype of integers.
        ValueError: for a table without rows or columns; in a call, past its end.

    Memory ``O(n_max d)``, all of it trained.

    Source: Gehring et al. 2017, arXiv 1705.03122, section 3.1; the deviation is that of the
    code of BERT (Devlin et al. 2018, arXiv 1810.04805).

    Examples:
        >>> positions = LearnedPositions(512, 8)
        >>> positions(3, offset=509).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        max_length: int,
        dim: int,
        *,
        std: float = 0.02,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_counts(1, max_length=max_length, dim=dim)
        checks.check_drawn(generator=generator, kind=torch.Generator, dtype=dtype)
        self.table = nn.Parameter(torch.empty(max_length, dim, device=device, dtype=dtype))
        nn.init.normal_(self.table, std=std, generator=generator)

    def forward(self, length: int, *, offset: int = 0) -> Tensor:
        """The ``(length, d)`` rows of the positions ``offset, …, offset + length - 1``."""
        _check_counts(0, length=length, offset=offset)
        limit = self.table.shape[0]
        if offset + length > limit:
            raise ValueError(
                f"length: expected at most {limit} positions, the size of the learned table, got "
                f"positions {offset} to {offset + length - 1}. Shorten the sequence, or train "
                f"with a larger max_length; rotary and alibi have no such limit."
            )
        return self.table[offset : offset + length]  # (length, d)


def rotary(
    x: Tensor,
    *,
    base: float = 10_000.0,
    offset: int = 0,
    positions: Tensor | Sequence[int] | None = None,
) -> Tensor:
    r"""Turn each pair of neighbouring components by an angle that grows with the position.

        x'_(2i) = x_(2i) cos(ω_i t) - x_(2i+1) sin(ω_i t)
        x'_(2i+1) = x_(2i) sin(ω_i t) + x_(2i+1) cos(ω_i t)
        ω_i = base^(-2i/d)

    Applied to query and key (never to the value), the score then depends on the two positions
    by their distance only: ``(R_t q)·(R_s k) = q·(R_(s-t) k)``. The pairs are
    ``(2i, 2i+1)``, as in the paper; :func:`rotary_half_split` pairs ``(i, i+d/2)``, and
    weights trained with one are wrong with the other until converted (:func:`to_half_split`).

    Args:
        x: ``(..., n, d)``, queries or keys of any floating dtype, d even.
        base: positive; sets the slowest frequency, ``base^(-(d-2)/d)``.
        offset: position of the first row: the length of the cache in step-by-step decoding.
        positions: integers that say where each row is, counted from ``offset``; None means 0, 1,
            2, … Of the shape ``(n,)``, or one that broadcasts to ``(..., n)``, such as
            ``(b, 1, n)`` for samples and all their heads. For the nodes of a tree,
            :func:`attnref.masks.tree` says them.

    Returns:
        ``(..., n, d)`` in the dtype of ``x``, of the same norm.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Exact up to rounding: float64 angles, products at least in float32. Time ``O(n d)`` per head,
    and ``n d / 2`` sines and cosines shared by all heads.

    Source: Su et al. 2021, arXiv 2104.09864, equations 15 and 34.

    Examples:
        >>> rotary(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
        tensor([[1.0000, 0.0000],
                [0.5403, 0.8415]])
    """
    cos, sin = _turns(x, base, offset, positions)  # (..., n, d/2) each
    even, odd = x[..., 0::2], x[..., 1::2]  # (..., n, d/2) each
    pairs = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return pairs.flatten(-2).to(x.dtype)  # (..., n, d)


def rotary_half_split(
    x: Tensor,
    *,
    base: float = 10_000.0,
    offset: int = 0,
    positions: Tensor | Sequence[int] | None = None,
) -> Tensor:
    r"""Turn as :func:`rotary` does, pairing the first half of the components with the second.

        x'_i = x_i cos(ω_i t) - x_(i+d/2) sin(ω_i t)
        x'_(i+d/2) = x_i sin(ω_i t) + x_(i+d/2) cos(ω_i t)

    Arguments, result, errors and cost as there: the same function after a permutation,
    ``rotary_half_split(to_half_split(x)) == to_half_split(rotary(x))``. Most published weights
    in the format of the Transformers library are made for this pairing.

    Source: the code of GPT-NeoX (Black et al. 2022, arXiv 2204.06745), after Su et al. 2021.

    Examples:
        >>> rotary_half_split(torch.tensor([[0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]))[1]
        tensor([0.5403, 0.0000, 0.8415, 0.0000])
    """
    cos, sin = _turns(x, base, offset, positions)  # (..., n, d/2) each
    first, second = x.chunk(2, dim=-1)  # (..., n, d/2) each
    turned = torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
    return turned.to(x.dtype)  # (..., n, d)


def to_half_split(tensor: Tensor, *, num_heads: int = 1, dim: int = -1) -> Tensor:
    r"""Reorder the components of each head from neighbouring pairs to split halves.

        (x_0, x_1, x_2, x_3, …) ↦ (x_0, x_2, … | x_1, x_3, …)

    Done to the query and the key projection, it makes weights trained with :func:`rotary` right
    for :func:`rotary_half_split`: both sides of each dot product are permuted alike.

    Args:
        tensor: vectors, a bias, or a weight; ``num_heads * d`` entries along ``dim``.
        num_heads: heads side by side along ``dim`` (key projections may have fewer).
        dim: the dimension to reorder: 0 for the weight of ``nn.Linear``, -1 for vectors.

    Returns:
        A new tensor of the same shape and dtype.

    Raises:
        ValueError: when ``dim`` does not hold ``num_heads`` heads of an even width.

    Examples:
        >>> to_half_split(torch.tensor([0, 1, 2, 3]))
        tensor([0, 2, 1, 3])
    """
    return _exchange(tensor, num_heads, dim, halves=False)


def from_half_split(tensor: Tensor, *, num_heads: int = 1, dim: int = -1) -> Tensor:
    r"""Undo :func:`to_half_split`: from split halves to neighbouring pairs.

        (x_0, x_1, … | x_(d/2), x_(d/2+1), …) ↦ (x_0, x_(d/2), x_1, x_(d/2+1), …)

    Arguments, result and errors as there.

    Examples:
        >>> from_half_split(torch.tensor([0, 2, 1, 3]))
        tensor([0, 1, 2, 3])
    """
    return _exchange(tensor, num_heads, dim, halves=True)


def alibi_slopes(
    num_heads: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    r"""How fast the attention of each head fades with distance: a geometric sequence.

        s_i = 2^(-8i/p)
        i = 1, …, p

    for the largest power of two p up to the number of heads h. The other h - p heads take
    ``2^(-4(2i-1)/p)``, every second slope of the sequence for 2p heads.

    Args:
        num_heads: h, any number from 1.
        dtype: of the result; the slopes are formed in float64.
        device: where the result lives.

    Returns:
        ``(h,)``, all positive.

    Raises:
        ValueError: for a number of heads that is not a positive integer.

    Source: Press, Smith, Lewis 2021, arXiv 2108.12409, section 3; for an h that is not a
    power of two, the authors' code.

    Examples:
        >>> alibi_slopes(3)
        tensor([0.0625, 0.0039, 0.2500])
    """
    _check_counts(1, num_heads=num_heads)
    power = 2 ** (num_heads.bit_length() - 1)
    whole = torch.arange(1, power + 1, dtype=torch.float64, device=device)  # (p,)
    between = torch.arange(num_heads - power, dtype=torch.float64, device=device) + 0.5  # (h - p,)
    return torch.exp2(-8.0 / power * torch.cat([whole, between])).to(dtype)  # (h,)


def alibi(
    num_heads: int,
    n: int,
    m: int | None = None,
    *,
    alignment: str | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    r"""Scores that fall linearly with distance: a bias to be passed as ``attn_mask``.

        b^(h)_ij = -s_h |i + δ - j|

    with the slopes of :func:`alibi_slopes`. The offset ``δ`` is 0 when both sequences
    begin together (``"top-left"``) and m - n when they end together (``"bottom-right"``, as
    when the last n tokens attend to a cache of m). It forbids nothing: for a causal model add
    the causal mask. The paper, causal throughout, leaves the future undefined; the absolute
    value is the symmetric reading of it.

    Args:
        num_heads: h.
        n: number of queries.
        m: number of keys; None means n.
        alignment: required when n != m, as in :func:`attnref.masks.causal`.
        dtype: of the result. In bfloat16 large distances are no longer told apart, where it
            matters little: no factor ``e^b`` of a weight moves by more than 0.002, for it
            errs by ``|b| e^b 2^(-8)``.
        device: where the result lives.

    Returns:
        ``(h, n, m)``, formed in float64 and rounded once; broadcasts to ``(..., h, n, m)``.

    Raises:
        ValueError: for counts out of range, an unknown alignment, or none when n != m.

    Time and memory ``O(h n m)``.

    Source: Press, Smith, Lewis 2021, arXiv 2108.12409, section 3.

    Examples:
        >>> alibi(1, 2, 3, alignment="bottom-right")
        tensor([[[-0.0039,  0.0000, -0.0039],
                 [-0.0078, -0.0039,  0.0000]]])
    """
    n, m, offset = checks.check_alignment(n, m, alignment)
    slopes = alibi_slopes(num_heads, dtype=torch.float64, device=device)[:, None, None]
    rows = torch.arange(offset, offset + n, dtype=torch.float64, device=device)[:, None]  # (n, 1)
    columns = torch.arange(m, dtype=torch.float64, device=device)  # (m,)
    nearness = torch.minimum(rows - columns, columns - rows)  # (n, m), never the -0.0 of -abs
    return (slopes * nearness).to(dtype)  # (h, n, m)


def distances(
    n: int,
    m: int | None = None,
    *,
    alignment: str | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    r"""The distances from a query to a key that a table of scores has: one for each diagonal.

        t_r = r - (n - 1) - δ
        r = 0, …, n + m - 2

    A key before its query is at a negative distance. A function of these numbers is what
    :func:`attnref.distance_bias_attention` takes as its bias: -s|t| with
    the slope s of a head is :func:`alibi`, and ``table[:, relative_buckets(t)]`` the bias of T5.

    Args:
        n: number of queries.
        m: number of keys; None means n.
        alignment: required when n != m, as in :func:`attnref.masks.causal`: the offset
            ``δ`` is 0 for ``"top-left"`` and m - n for ``"bottom-right"``.
        device: where the result lives.

    Returns:
        ``(n + m - 1,)`` int64, ascending; empty when n or m is 0.

    Raises:
        ValueError: for counts out of range, an unknown alignment, or none when n != m.

    Time and memory ``O(n + m)``.

    Examples:
        >>> distances(3)
        tensor([-2, -1,  0,  1,  2])
        >>> distances(2, 4, alignment="bottom-right")
        tensor([-3, -2, -1,  0,  1])
    """
    n, m, offset = checks.check_alignment(n, m, alignment)
    count = n + m - 1 if n and m else 0
    return torch.arange(count, device=device) - (n - 1 + offset)  # (n + m - 1,)


def relative_buckets(
    distance: Tensor,
    *,
    num_buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> Tensor:
    r"""The bucket of each distance: near ones have their own, far ones share, as logarithms do.

        f(u) = u for u < e
        f(u) = min(⌊e + (B - e) ln(u/e) / ln(D/e)⌋, B - 1) for u ≥ e
        e = ⌊B/2⌋

    with the number of buckets B and the largest distance D. Bidirectional, half of the buckets
    are for each side: distance t has the bucket ``f|t|`` among the first half of them if
    ``t ≤ 0``, among the second if t > 0. Otherwise only the past has distances:
    ``f(max(-t, 0))``, and all of the future is in bucket 0.

    Args:
        distance: integers of any shape, the position of the key minus that of the query, such as
            :func:`distances`.
        num_buckets: at least 2, and even and at least 4 when bidirectional.
        max_distance: D, from which on all distances share the last bucket; above e.
        bidirectional: whether keys after the query have buckets of their own.

    Returns:
        int64 of the shape of ``distance``, from 0 to ``num_buckets - 1``: an index into a table
        with a number for each bucket.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    The logarithm is formed in float32, as T5's own code does: where its value is a whole number,
    a rounding decides, and trained tables rely on it.

    Source: Raffel et al. 2019, arXiv 1910.10683, section 2.1, and its code.

    Examples:
        >>> relative_buckets(torch.tensor([-200, -9, -8, -1, 0, 1, 8, 200]))
        tensor([15,  8,  8,  1,  0, 17, 24, 31])
    """
    if not isinstance(distance, Tensor) or distance.is_floating_point() or distance.is_complex():
        kind = distance.dtype if isinstance(distance, Tensor) else type(distance).__name__
        raise TypeError(
            f"distance: expected a tensor of integers, got {kind}. positions.distances(n, m) "
            "makes them."
        )
    if not isinstance(bidirectional, bool):
        raise TypeError(
            f"bidirectional: expected True or False, got {type(bidirectional).__name__}. A decoder "
            "with a causal mask has False."
        )
    sides = 2 if bidirectional else 1
    advice = f"T5 has 32; {'each side has half of them' if bidirectional else 'half are exact'}."
    checks.check_integer("num_buckets", num_buckets, 2 * sides, advice)
    if num_buckets % sides:
        raise ValueError(
            f"num_buckets: expected an even number when bidirectional, got {num_buckets}. {advice}"
        )
    side = num_buckets // sides
    exact = side // 2
    advice = f"Distances below {exact} have buckets of their own; T5 has 128."
    checks.check_integer("max_distance", max_distance, exact + 1, advice)
    far = distance.abs() if bidirectional else (-distance).clamp(min=0)
    share = torch.log(far.float() / exact) / math.log(max_distance / exact) * (side - exact)
    beyond = exact + share.clamp(min=0, max=side).long()  # the distance 0 has share -inf
    bucket = torch.where(far < exact, far, beyond.clamp(max=side - 1))
    return bucket + (distance > 0) * side if bidirectional else bucket


def _frequencies(dim: int, *, base: float, device: torch.device | str | None) -> Tensor:
    """The angular frequency of each pair, from fast to slow, ``(d/2,)`` float64."""
    _check_even(dim)
    advice = "The usual choice is 10000."
    if not checks.check_number("base", base, advice) > 0:
        raise ValueError(f"base: expected a positive number, got {base}. {advice}")
    return torch.pow(base, -torch.arange(0, dim, 2, dtype=torch.float64, device=device) / dim)


def _angles(
    length: int, dim: int, base: float, offset: int, device: torch.device | str | None
) -> Tensor:
    """The angle of each pair at each position, ``(n, d/2)`` float64."""
    _check_counts(0, length=length, offset=offset)
    places = torch.arange(offset, offset + length, dtype=torch.float64, device=device)  # (n,)
    return places[:, None] * _frequencies(dim, base=base, device=device)  # (n, d/2)


def _turns(
    x: Tensor, base: float, offset: int, positions: Tensor | Sequence[int] | None
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the angles for ``x``, ``(..., n, d/2)`` each, at least in float32."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"x: expected a torch.Tensor, got {type(x).__name__}. Convert it with "
            "torch.as_tensor(x)."
        )
    if not x.is_floating_point():
        raise TypeError(f"x: expected a floating dtype, got {x.dtype}. Convert it with x.float().")
    if x.dim() < 2 or x.shape[-1] == 0 or x.shape[-1] % 2:
        raise ValueError(
            f"x: expected shape (..., n, d) with an even d, got {tuple(x.shape)}. Rotations turn "
            "pairs of components: choose an even head_dim."
        )
    if positions is None:
        angles = _angles(x.shape[-2], x.shape[-1], base, offset, x.device)  # (n, d/2)
    else:
        places = _read_positions(positions, offset, x)  # (..., n)
        angles = places[..., None] * _frequencies(x.shape[-1], base=base, device=x.device)
    wide = torch.promote_types(x.dtype, torch.float32)
    return angles.cos().to(wide), angles.sin().to(wide)


def _read_positions(positions: Tensor | Sequence[int], offset: int, x: Tensor) -> Tensor:
    """Where the caller says that the rows of ``x`` are, float64."""
    _check_counts(0, offset=offset)
    try:
        places = torch.as_tensor(positions, device=x.device)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"positions: expected a tensor or a sequence of integers, got "
            f"{type(positions).__name__}. Pass one number for each row of x."
        ) from None
    whole = not (places.is_floating_point() or places.dtype == torch.bool)
    rows = x.shape[:-1]
    fits = checks.broadcast_shape(places.shape, rows) == rows
    checks.check_integers(
        "positions",
        f"{tuple(rows)}, or one that broadcasts to it",
        f"shape {tuple(places.shape)} of {places.dtype}",
        "One number for each row of x; for samples with heads write (b, 1, n).",
        whole=whole or places.numel() == 0,
        fits=fits,
    )
    return offset + places.double()


def _exchange(tensor: Tensor, num_heads: int, dim: int, *, halves: bool) -> Tensor:
    """Read the components of each head as d/2 pairs, or as 2 halves, and transpose them."""
    _check_counts(1, num_heads=num_heads)
    size = tensor.shape[dim]
    if size == 0 or size % (2 * num_heads):
        raise ValueError(
            f"tensor: expected num_heads={num_heads} heads of an even width along dimension {dim}, "
            f"got size {size} in shape {tuple(tensor.shape)}. The weight of nn.Linear has its "
            "heads along dim=0, vectors along dim=-1."
        )
    pairs = size // (2 * num_heads)
    last = tensor.movedim(dim, -1)  # (..., h d)
    matrices = last.reshape(*last.shape[:-1], num_heads, *((2, pairs) if halves else (pairs, 2)))
    return matrices.mT.reshape(last.shape).movedim(-1, dim)


def _check_even(dim: int) -> None:
    advice = "Each frequency takes a pair of components, a sine and a cosine."
    if checks.check_integer("dim", dim, 2, advice) % 2:
        raise ValueError(f"dim: expected an even number, got {dim}. {advice}")


def _check_counts(least: int, **counts: int) -> None:
    for name, count in counts.items():
        checks.check_integer(
            name,
            count,
            least,
            "Take it from a shape: x.shape[-2] counts positions, x.shape[-3] heads.",
        )
