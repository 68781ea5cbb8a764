r"""Exact cost of attention: operations, bytes moved, peak memory, parameters and cache.

Each method is a function from :class:`Sizes` to :class:`Cost`, and counts the program that its
docstring shows. The rules of counting:

- *Operations.* One addition, subtraction, multiplication, division or maximum of two
  floating-point numbers is one operation; so is one exponential or logarithm, which have a
  count of their own because hardware computes them elsewhere, more slowly. A sum, a maximum or
  a product of matrices starts from an accumulator: d numbers cost d operations, a product of
  :math:`(n\times d)` and :math:`(d\times m)` costs :math:`2nmd`, and a bias, being the
  accumulator, costs none.
- *Not operations:* comparisons and selections (``where``, ``masked_fill``), absolute values,
  logic on booleans, conversions, copies, arithmetic on indices. They may still move bytes.
- *Bytes moved.* Each line is one kernel: it reads each of its tensors once from main memory
  and writes its result once. Views move nothing.
- *Peak.* The most bytes alive at one time that the method allocates, its output included and
  its arguments not; a tensor is freed after its last use.

Examples:
    >>> sizes = Sizes(n=512, m=512, d_k=64, d_v=64, num_heads=12)
    >>> plain(sizes).operations.matmul, linear(sizes).operations.matmul
    (805306368, 100663296)
"""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from numbers import Integral

import torch

from attnref.checks import check_integer

__all__ = [
    "Cost",
    "Operations",
    "Sizes",
    "Tiles",
    "allowed_pairs",
    "blockwise",
    "blockwise_backward",
    "feedforward",
    "feedforward_parameters",
    "fused",
    "linear",
    "multihead",
    "multihead_parameters",
    "plain",
    "plain_backward",
    "reference",
    "tiles",
    "useful_share",
]

# Query i sees the keys i - left to i + right; None is without limit.
Window = tuple[int | None, int | None]


@dataclass(frozen=True)
class Operations:
    """How much arithmetic: in matrix products, elsewhere, and in exponentials and logarithms.

    Examples:
        >>> (Operations(matmul=10) + Operations(elementwise=2, exponentials=1) * 3).total
        19
    """

    matmul: int = 0
    elementwise: int = 0
    exponentials: int = 0

    @property
    def total(self) -> int:
        return self.matmul + self.elementwise + self.exponentials

    def __add__(self, other: "Operations") -> "Operations":
        return Operations(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, times: int) -> "Operations":
        return Operations(*(times * count for count in astuple(self)))


@dataclass(frozen=True)
class Cost:
    """What a method spends: arithmetic, bytes moved, and the most memory held at one time.

    ``a + b`` is a and then b, ``a * 12`` is a twelve times in a row: amounts add up, of the
    peaks the highest stays, since what is kept from one to the next belongs to the later one.

    Examples:
        >>> cost = Cost(Operations(matmul=8), bytes_read=6, bytes_written=2, peak_bytes=5) * 2
        >>> cost.operations.total, cost.bytes_moved, cost.peak_bytes, cost.intensity
        (16, 16, 5, 1.0)
    """

    operations: Operations = Operations()
    bytes_read: int = 0
    bytes_written: int = 0
    peak_bytes: int = 0

    @property
    def bytes_moved(self) -> int:
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Operations for each byte moved."""
        return self.operations.total / self.bytes_moved

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.operations + other.operations,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            max(self.peak_bytes, other.peak_bytes),
        )

    def __mul__(self, times: int) -> "Cost":
        return Cost(
            self.operations * times,
            self.bytes_read * times,
            self.bytes_written * times,
            self.peak_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class Sizes:
    r"""The sizes of query ``(b, h, n, d_k)``, key ``(b, h_kv, m, d_k)`` and value ``(…, m, d_v)``.

    Args:
        n: number of queries; 1 while decoding.
        m: number of keys; while decoding, those in the cache and the new one.
        d_k: size of a query and of a key.
        d_v: size of a value; 0 in a cache whose values are read out of the keys.
        batch: sequences side by side.
        num_heads: heads of query.
        num_kv_heads: heads of key and value; None means ``num_heads``.
        dtype: of all tensors.

    Raises:
        ValueError: for a size below 1 (d_v: below 0), or heads that num_kv_heads does not divide.
        TypeError: for a dtype that is none.

    Examples:
        >>> Sizes(n=2048, m=2048, d_k=128, d_v=128, num_heads=32, dtype=torch.float16).score_bytes
        268435456
    """

    n: int
    m: int
    d_k: int
    d_v: int
    batch: int = 1
    num_heads: int = 1
    num_kv_heads: int | None = None
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        _check_counts(n=self.n, m=self.m, d_k=self.d_k, batch=self.batch, num_heads=self.num_heads)
        _check_counts(0, d_v=self.d_v)
        _check_counts(num_kv_heads=self.kv_heads)
        _itemsize(self.dtype)
        if self.num_heads % self.kv_heads:
            raise ValueError(
                f"num_kv_heads: expected a divisor of num_heads = {self.num_heads}, got "
                f"{self.num_kv_heads}. Each key head serves an equal group of query heads."
            )

    @property
    def kv_heads(self) -> int:
        """Heads of key and value."""
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    @property
    def score_bytes(self) -> int:
        """All scores, or all weights: ``b h n m`` numbers."""
        return _itemsize(self.dtype) * self.batch * self.num_heads * self.n * self.m

    @property
    def cache_bytes(self) -> int:
        """The KV cache of one layer: ``b h_kv m (d_k + d_v)`` numbers.

        Multi-head latent attention keeps one head of latent and rotary numbers whose values
        are part of its keys: ``num_kv_heads=1, d_k=512 + 64, d_v=0`` in DeepSeek-V2.

        Source: Shazeer 2019, arXiv 1911.02150 (one key head); Ainslie et al. 2023, arXiv
        2305.13245 (groups); DeepSeek-AI 2024, arXiv 2405.04434 (latent).

        Examples:
            >>> token = dict(n=1, m=1, d_k=128, d_v=128, num_heads=64, dtype=torch.float16)
            >>> [80 * Sizes(**token, num_kv_heads=heads).cache_bytes for heads in (64, 8, 1)]
            [2621440, 327680, 40960]
        """
        numbers = self.batch * self.kv_heads * self.m * (self.d_k + self.d_v)
        return _itemsize(self.dtype) * numbers

    @property
    def state_bytes(self) -> int:
        """What linear attention keeps in place of a cache: ``b h (d_k d_v + d_k)`` numbers."""
        return _itemsize(self.dtype) * self.batch * self.num_heads * self.d_k * (self.d_v + 1)


# --- which pairs ---------------------------------------------------------------------------


def allowed_pairs(n: int, m: int, *, window: Window = (None, None)) -> int:
    r"""How many pairs of a query and a key a window allows.

    .. math:: \#\{(i,j) : i-\text{left}\le j\le i+\text{right},\ 0\le i<n,\ 0\le j<m\}

    Causal is ``(None, 0)``, the last w keys ``(w - 1, 0)``, w keys to either side ``(w, w)``;
    when both sequences end together (``"bottom-right"``) add m - n to the right and subtract
    it from the left. Any other mask has ``int(mask.dense().sum())`` pairs.

    Args:
        n: number of queries.
        m: number of keys.
        window: ``(left, right)``; None is without limit.

    Returns:
        The count, exactly, in constant time.

    Raises:
        ValueError: for a size below 1, or ``left + right`` below 0.
        TypeError: for limits that are neither integers nor None.

    Examples:
        >>> allowed_pairs(4, 4, window=(None, 0)), allowed_pairs(4, 4, window=(1, 0))
        (10, 7)
    """
    _check_counts(n=n, m=m)
    left, right = _limits(n, m, window)
    return _clamped_sum(n, right + 1, m) - _clamped_sum(n, -left, m)


@dataclass(frozen=True)
class Tiles:
    """The tiles of the scores that are left when those without an allowed pair are skipped.

    ``count`` tiles hold ``pairs`` scores; they have ``rows`` queries, counted again in each
    tile; and ``columns`` keys are loaded, again for each block of queries.

    Examples:
        >>> tiles(4, 4, block=(2, 2), window=(None, 0))
        Tiles(count=3, pairs=12, rows=6, columns=6)
    """

    count: int
    pairs: int
    rows: int
    columns: int


def tiles(n: int, m: int, *, block: tuple[int, int], window: Window = (None, None)) -> Tiles:
    r"""The tiles that hold at least one allowed pair.

    A causal mask over b whole blocks leaves :math:`\tfrac12+\tfrac1{2b}` of the scores.

    Args:
        n: number of queries.
        m: number of keys.
        block: queries and keys of a tile; the last ones are cut off at n and m.
        window: as in :func:`allowed_pairs`.

    Returns:
        :class:`Tiles`, exactly, in time ``O(n / block[0])``.

    Raises:
        ValueError, TypeError: as :func:`allowed_pairs`, and for a block below 1.

    Examples:
        >>> causal = tiles(4096, 4096, block=(128, 128), window=(None, 0))
        >>> causal.count, causal.pairs / 4096**2
        (528, 0.515625)
    """
    block_q, block_k = block
    _check_counts(n=n, m=m, block_q=block_q, block_k=block_k)
    left, right = _limits(n, m, window)
    count = pairs = rows = columns = 0
    for top in range(0, n, block_q):
        bottom = min(top + block_q, n)
        start, stop = max(top - left, 0), min(bottom + right, m)
        if start >= stop:
            continue
        first, last = start // block_k, (stop - 1) // block_k
        width = min((last + 1) * block_k, m) - first * block_k
        count += last - first + 1
        pairs += (bottom - top) * width
        rows += (bottom - top) * (last - first + 1)
        columns += width
    return Tiles(count, pairs, rows, columns)


def useful_share(lengths: Sequence[int]) -> tuple[float, float]:
    r"""Which share of a padded batch is real: of its token slots, and of its scores.

    .. math:: \frac{\sum_i n_i}{b\,n_{\max}}, \qquad \frac{\sum_i n_i^2}{b\,n_{\max}^2}

    Args:
        lengths: the real length of each sequence; all are padded to the longest.

    Raises:
        ValueError: for an empty list or a length below 1.

    Source: Krell et al. 2021, arXiv 2107.02027, who pack sequences to avoid the waste.

    Examples:
        >>> [f"{share:.1%}" for share in useful_share([512] + 31 * [32])]
        ['9.2%', '3.5%']
    """
    _check_counts(sequences=len(lengths))
    for length in lengths:
        _check_counts(lengths=length)
    slots = len(lengths) * max(lengths)
    return sum(lengths) / slots, sum(length**2 for length in lengths) / (slots * max(lengths))


# --- softmax attention ---------------------------------------------------------------------


def plain(sizes: Sizes, *, masked: bool = False) -> Cost:
    r"""The formula as it is written, with all n × m scores in memory.

    .. math:: bh\,\bigl(2nm(d_k+d_v) + 6nm\bigr) \text{ operations}

    ::

        scores = query @ key.mT                         # (b, h, n, m)
        scores = scores * scale
        scores = scores.masked_fill(forbidden, -inf)    # only when masked
        weights = softmax(scores)                       # max, subtract, exp, sum, divide
        output = weights @ value                        # (b, h, n, d_v)

    A mask saves nothing here: forbidden scores are computed too, and masking moves bytes.
    Query heads that share a key head are its rows (a view), so that each key is read once.

    Args:
        sizes: of query, key and value.
        masked: whether there is a bool mask ``(n, m)``, one for all heads.

    Exact for the program above. Training adds :func:`plain_backward`.

    Source: Vaswani et al. 2017, arXiv 1706.03762, equation 1.

    Examples:
        >>> sizes = Sizes(n=2048, m=2048, d_k=128, d_v=128)
        >>> plain(sizes).peak_bytes / sizes.score_bytes
        2.0
    """
    n, m, d_k, d_v, h, h_kv, size = _letters(sizes)
    rows, scores = h // h_kv * n, h * n * m
    cost = _matmul(h_kv, rows, d_k, m, size) + _pass(scores, size, elementwise=1)
    if masked:
        cost += _pass(scores, size) + Cost(bytes_read=n * m)
    cost += _pass(scores, size, elementwise=4, exponentials=1)
    cost += _matmul(h_kv, rows, m, d_v, size)
    return cost + Cost(peak_bytes=size * (scores + max(scores, h * n * d_v)))


def plain_backward(sizes: Sizes, *, masked: bool = False) -> Cost:
    r"""The gradients of :func:`plain`, from the weights that its forward pass kept.

    .. math:: bh\,\bigl(4nm(d_k+d_v) + 5nm\bigr) \text{ operations}

    ::

        d_weights, d_value = grad @ value.mT, weights.mT @ grad
        d_scores = weights * (d_weights - (weights * d_weights).sum(-1))    # one kernel
        d_scores = d_scores.masked_fill(forbidden, 0)                       # only when masked
        d_scores = d_scores * scale
        d_query, d_key = d_scores @ key, d_scores.mT @ query

    Arguments as in :func:`plain`. The peak includes the weights and the output, which the
    forward pass left, so that ``plain(…) + plain_backward(…)`` is a whole step of training.

    Examples:
        >>> sizes = Sizes(n=64, m=64, d_k=16, d_v=16)
        >>> plain_backward(sizes).operations.matmul / plain(sizes).operations.matmul
        2.0
    """
    n, m, d_k, d_v, h, h_kv, size = _letters(sizes)
    rows, scores = h // h_kv * n, h * n * m
    cost = _matmul(h_kv, rows, d_v, m, size) + _matmul(h_kv, m, rows, d_v, size)
    cost += _pass(scores, size, elementwise=4) + Cost(bytes_read=size * scores)
    if masked:
        cost += _pass(scores, size) + Cost(bytes_read=n * m)
    cost += _pass(scores, size, elementwise=1)
    cost += _matmul(h_kv, rows, m, d_k, size) + _matmul(h_kv, m, rows, d_k, size)
    kept = h * n * d_v + h_kv * m * d_v  # output and d_value
    last = scores + h * n * d_k + h_kv * m * d_k
    return cost + Cost(peak_bytes=size * (kept + max(3 * scores, last)))


def fused(sizes: Sizes, *, pairs: int | None = None) -> Cost:
    r"""Softmax attention without waste: allowed pairs only, each tensor moved once.

    .. math:: bh\,\bigl(2P(d_k+d_v) + 4P + n(d_k+d_v)\bigr) \text{ operations}, \qquad
              b\,\bigl(hn+h_{kv}m\bigr)(d_k+d_v) \text{ numbers moved}

    for P allowed pairs a head. Nothing but the output leaves the chip, which a real kernel
    nears as its tiles grow (:func:`blockwise`). Row by row, with the keys that it may see::

        scores = keys @ (scale * query_row)             # (allowed,)
        powers = exp(scores - scores.max())
        output_row = (powers @ values) / powers.sum()   # (d_v,)

    Args:
        sizes: of query, key and value.
        pairs: allowed pairs of a head, of whatever mask; None means all n m.

    Raises:
        ValueError: for more pairs than there are.

    Exact for the program above when each query sees some key and each key is seen.

    Examples:
        >>> sizes = Sizes(n=512, m=512, d_k=64, d_v=64)
        >>> causal = fused(sizes, pairs=allowed_pairs(512, 512, window=(None, 0)))
        >>> causal.operations.matmul / fused(sizes).operations.matmul
        0.5009765625
    """
    n, m, d_k, d_v, h, h_kv, size = _letters(sizes)
    pairs = n * m if pairs is None else pairs
    _check_counts(0, pairs=pairs)
    if pairs > n * m:
        raise ValueError(
            f"pairs: expected at most n m = {n * m}, got {pairs}. Count those of one head, for "
            "example int(mask[0, 0].sum())."
        )
    operations = Operations(
        matmul=2 * h * pairs * (d_k + d_v),
        elementwise=h * (3 * pairs + n * (d_k + d_v)),
        exponentials=h * pairs,
    )
    read, written = h * n * d_k + h_kv * m * (d_k + d_v), h * n * d_v
    return Cost(operations, size * read, size * written, peak_bytes=size * written)


def blockwise(
    sizes: Sizes,
    *,
    block: tuple[int, int],
    window: Window = (None, None),
    return_lse: bool = False,
) -> Cost:
    r"""Exact attention tile by tile, with a running maximum and sum: memory linear in n.

    .. math:: bh\,\bigl(2T(d_k+d_v) + 4T + R(d_v+5) + n(d_k+d_v)\bigr) \text{ operations}

    with T pairs and R rows in the tiles that are left (:func:`tiles`)::

        for rows in blocks of queries:
            q = scale * query[rows]; top, total, out = -inf, 0, 0
            for columns in blocks of keys that rows may see:
                k, v = key[columns], value[columns]
                scores = q @ k.mT
                new = maximum(top, scores.max(-1))
                powers, shrink = exp(scores - new), exp(top - new)
                total = total * shrink + powers.sum(-1)
                out = out * shrink + powers @ v         # accumulated by the product
                top = new
            output[rows] = out / total
            lse[rows] = top + log(total)                # only with return_lse

    ``query``, ``key``, ``value``, ``output`` and ``lse`` stand in main memory, all else is
    held for one tile. So queries are read once, but keys and values once for each block of
    queries: the larger ``block[0]``, the fewer bytes are moved.

    Args:
        sizes: of query, key and value.
        block: queries and keys of a tile.
        window: as in :func:`allowed_pairs`; tiles without an allowed pair are skipped.
        return_lse: also write the logarithm of each row's sum, for :func:`blockwise_backward`
            or to merge with attention over other keys.

    Raises:
        ValueError, TypeError: as :func:`tiles`.

    Exact for the program above with all heads in step, tiles changed in place and one of them
    whole; a kernel that accumulates half precision in float32 holds up to twice as much a tile.

    Source: Rabe and Staats 2021, arXiv 2112.05682; Dao 2023, arXiv 2307.08691, algorithm 1.

    Examples:
        >>> sizes = Sizes(n=8192, m=8192, d_k=128, d_v=128)
        >>> plain(sizes).peak_bytes // blockwise(sizes, block=(128, 128)).peak_bytes
        118
    """
    n, m, d_k, d_v, h, h_kv, size = _letters(sizes)
    left = tiles(n, m, block=block, window=window)
    block_q, block_k = min(block[0], n), min(block[1], m)
    operations = Operations(
        matmul=2 * h * left.pairs * (d_k + d_v),
        elementwise=h * (3 * left.pairs + left.rows * (d_v + 4) + n * (d_k + d_v + return_lse)),
        exponentials=h * (left.pairs + left.rows + n * return_lse),
    )
    read, written = h * n * d_k + h_kv * left.columns * (d_k + d_v), h * n * (d_v + return_lse)
    tile = h * block_q * (d_k + d_v + block_k + 4) + h_kv * block_k * (d_k + d_v)
    return Cost(operations, size * read, size * written, peak_bytes=size * (written + tile))


def blockwise_backward(
    sizes: Sizes, *, block: tuple[int, int], window: Window = (None, None)
) -> Cost:
    r"""The gradients of :func:`blockwise`, from scores that are computed again.

    .. math:: b\,\bigl(h(2T(3d_k+2d_v) + 4T + 2nd_v) + 2h_{kv}md_k\bigr) \text{ operations}

    with five products a tile, where :func:`plain_backward` has four::

        delta = (grad * output).sum(-1)                 # block by block
        d_query = 0
        for columns in blocks of keys:
            k, v = scale * key[columns], value[columns]; k_grad, v_grad = 0, 0
            for rows in blocks of queries that may see columns:
                q, g = query[rows], grad[rows]
                powers = exp(q @ k.mT - lse[rows])
                v_grad += powers.mT @ g                 # accumulated by the product
                d_scores = (g @ v.mT - delta[rows]) * powers
                d_query[rows] += d_scores @ k
                k_grad += d_scores.mT @ q
            d_key[columns], d_value[columns] = scale * k_grad, v_grad

    Arguments, errors and exactness as in :func:`blockwise`. The peak includes ``output`` and
    ``lse``, which the forward pass left, so that ``blockwise(…, return_lse=True) +
    blockwise_backward(…)`` is a whole step of training.

    Source: Dao 2023, arXiv 2307.08691, algorithm 2.

    Examples:
        >>> sizes, block = Sizes(n=256, m=256, d_k=64, d_v=64), (64, 64)
        >>> forward = blockwise(sizes, block=block)
        >>> backward = blockwise_backward(sizes, block=block)
        >>> backward.operations.matmul / forward.operations.matmul
        2.5
    """
    n, m, d_k, d_v, h, h_kv, size = _letters(sizes)
    left = tiles(n, m, block=block, window=window)
    block_q, block_k = min(block[0], n), min(block[1], m)
    operations = Operations(
        matmul=2 * h * left.pairs * (3 * d_k + 2 * d_v),
        elementwise=h * (3 * left.pairs + 2 * n * d_v) + 2 * h_kv * m * d_k,
        exponentials=h * left.pairs,
    )
    keys = h_kv * m * (d_k + d_v)  # key and value, and as much for their gradients
    read = h * (2 * n * d_v + left.rows * (2 * d_k + d_v + 2)) + keys
    written = h * (n + n * d_k + left.rows * d_k) + keys
    held = h * n * (d_v + 2 + d_k) + keys  # output, lse, delta and the gradients
    tile = h * block_q * (d_k + d_v + 2 * block_k) + 2 * h_kv * block_k * (d_k + d_v)
    return Cost(operations, size * read, size * written, peak_bytes=size * (held + tile))


def reference(sizes: Sizes, *, float_mask: bool = False) -> Operations:
    r"""The arithmetic of :func:`attnref.scaled_dot_product_attention`.

    .. math:: bh\,\bigl(2nm(2d_k+4d_v) + 13nm + n(d_k+4)\bigr)

    It forms the scores twice, to keep NaN and inf out of the gradients, and averages three
    indicators (NaN, inf, -inf) beside each value, to let them reach the right rows only: its
    products cost :math:`(2d_k+4d_v)/(d_k+d_v)` times those of :func:`plain`. Each row has two
    log-sums of exponentials beside its softmax. Bytes are left out: they depend on the kernels
    into which a version of PyTorch splits ``isfinite``.

    Args:
        sizes: of query, key and value; ``enable_gqa`` copies shared heads, which is no saving.
        float_mask: whether ``attn_mask`` is a tensor of numbers to add; bool and causal masks
            are selections and cost no operations.

    Exact without dropout and softcap.

    Examples:
        >>> sizes = Sizes(n=512, m=512, d_k=64, d_v=64)
        >>> reference(sizes).matmul / plain(sizes).operations.matmul
        3.0
    """
    n, m, d_k, d_v, h, _, _ = _letters(sizes)
    return Operations(
        matmul=2 * h * n * m * (2 * d_k + 4 * d_v),
        elementwise=h * n * ((10 + float_mask) * m + d_k + 2),
        exponentials=h * n * (3 * m + 2),
    )


# --- linear attention ----------------------------------------------------------------------


def linear(sizes: Sizes) -> Cost:
    r"""Linear attention, from features of queries and keys, without the n × m scores.

    .. math:: bh\,\bigl(2(n+m)d_kd_v + md_k + 2nd_k + nd_v\bigr) \text{ operations}

    ::

        state = key.mT @ value                          # (b, h, d_k, d_v)
        norm = key.sum(-2)                              # (b, h, 1, d_k)
        total = (query * norm).sum(-1)                  # (b, h, n, 1)
        output = query @ state
        output /= total                                 # (b, h, n, d_v)

    For n = m its products cost what those of :func:`plain` do at
    :math:`n = 2d_kd_v/(d_k+d_v)`, which is d for :math:`d_k=d_v=d`; less only beyond. Run
    causally, one token after the other, it needs the same operations.

    Args:
        sizes: of query, key and value, with the number of features as d_k; computing the
            features is not counted.

    Raises:
        ValueError: for fewer key heads than heads.

    Source: Katharopoulos et al. 2020, arXiv 2006.16236, equations 5 and 6.

    Examples:
        >>> for n in (32, 64, 4096):
        ...     sizes = Sizes(n=n, m=n, d_k=64, d_v=64)
        ...     print(linear(sizes).operations.matmul / plain(sizes).operations.matmul)
        2.0
        1.0
        0.015625
    """
    n, m, d_k, d_v, h, h_kv, size = _letters(sizes)
    if h != h_kv:
        raise ValueError(
            f"num_kv_heads: expected {sizes.num_heads}, as many as num_heads, got "
            f"{sizes.num_kv_heads}. Each head has a state of its own here."
        )
    queries, outputs, norm, total = h * n * d_k, h * n * d_v, h * d_k, h * n
    return (
        _matmul(h, d_k, m, d_v, size)
        + _kernel(h * m * d_k, norm, size, elementwise=h * m * d_k)
        + _kernel(queries + norm, queries, size, elementwise=queries)
        + _kernel(queries, total, size, elementwise=queries)
        + _matmul(h, n, d_k, d_v, size)
        + _kernel(outputs + total, outputs, size, elementwise=outputs)
        + Cost(peak_bytes=sizes.state_bytes + size * (total + max(queries, outputs)))
    )


# --- layers --------------------------------------------------------------------------------


def multihead(sizes: Sizes, embed_dim: int, core: Cost, *, bias: bool = True) -> Cost:
    r"""A multi-head layer: four projections around a core.

    .. math:: 8nD^2 + 4n^2D \text{ operations in products, for } n=m,\ hd_k=hd_v=D

    so the core outweighs the projections only for :math:`n>2D`, and projections and
    :func:`feedforward` together, :math:`24nD^2`, only for :math:`n>6D`::

        query, key, value = linear(x, W_q), linear(x, W_k), linear(x, W_v)  # heads are views
        output = core(query, key, value)                # (b, h, n, d_v)
        output = heads side by side                     # (b, n, h d_v), a copy
        output = linear(output, W_o)                    # (b, n, D)

    Args:
        sizes: of query, key and value; n new tokens are projected, older keys come from a cache.
        embed_dim: D, the size of a row of x and of the output.
        core: cost of the attention between, such as ``plain(sizes)``.
        bias: whether the projections have one; it is the accumulator, read at no operation.

    Raises:
        ValueError: for an embed_dim below 1.

    Exact for the program above. In products, training costs three times the forward pass: each
    product has two gradients.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2.

    Examples:
        >>> sizes = Sizes(n=512, m=512, d_k=64, d_v=64, num_heads=12)
        >>> core = plain(sizes)
        >>> layer = multihead(sizes, 768, core) + feedforward(512, 768, 3072)
        >>> core.operations.matmul / layer.operations.matmul
        0.1
    """
    n, _, d_k, d_v, h, _, size = _letters(sizes)
    _check_counts(embed_dim=embed_dim)
    tokens = sizes.batch * n
    projected = tokens * (sizes.num_heads * d_k + sizes.kv_heads * (d_k + d_v))
    joined = h * n * d_v
    peak = max(
        size * projected + core.peak_bytes,
        size * (joined + max(joined, tokens * embed_dim)),
    )
    return (
        _linear(tokens, embed_dim, sizes.num_heads * d_k, size, bias)
        + _linear(tokens, embed_dim, sizes.kv_heads * d_k, size, bias)
        + _linear(tokens, embed_dim, sizes.kv_heads * d_v, size, bias)
        + core
        + _pass(joined, size)
        + _linear(tokens, sizes.num_heads * d_v, embed_dim, size, bias)
        + Cost(peak_bytes=peak)
    )


def multihead_parameters(sizes: Sizes, embed_dim: int, *, bias: bool = True) -> int:
    r"""Numbers to learn in a multi-head layer: :math:`D(h+h_{kv})(d_k+d_v)`, and the biases.

    Arguments and errors as in :func:`multihead`; n, m and batch do not matter.

    Examples:
        >>> multihead_parameters(Sizes(n=1, m=1, d_k=64, d_v=64, num_heads=8), 512, bias=False)
        1048576
    """
    _check_counts(embed_dim=embed_dim)
    key, query = sizes.kv_heads, sizes.num_heads
    biases = query * sizes.d_k + key * (sizes.d_k + sizes.d_v) + embed_dim
    return embed_dim * (query + key) * (sizes.d_k + sizes.d_v) + bias * biases


def feedforward(
    tokens: int,
    embed_dim: int,
    hidden: int,
    *,
    bias: bool = True,
    dtype: torch.dtype = torch.float32,
) -> Cost:
    r"""The layer after attention: :math:`\mathrm{ReLU}(x W_1)\,W_2`, and the biases.

    .. math:: 4nDH \text{ operations in products, } 16nD^2 \text{ for } H = 4D

    Another activation changes the other operations only: here, one maximum for each hidden
    number.

    Args:
        tokens: rows of x, batch times n.
        embed_dim: D, the size of a row.
        hidden: H, the size between.
        bias: whether the two linear layers have one.
        dtype: of all tensors.

    Raises:
        ValueError, TypeError: for a size below 1 or a dtype that is none.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.3.

    Examples:
        >>> feedforward(512, 768, 3072).operations.matmul == 16 * 512 * 768**2
        True
    """
    _check_counts(tokens=tokens, embed_dim=embed_dim, hidden=hidden)
    size, inner = _itemsize(dtype), tokens * hidden
    return (
        _linear(tokens, embed_dim, hidden, size, bias)
        + _pass(inner, size, elementwise=1)
        + _linear(tokens, hidden, embed_dim, size, bias)
        + Cost(peak_bytes=size * (inner + max(inner, tokens * embed_dim)))
    )


def feedforward_parameters(embed_dim: int, hidden: int, *, bias: bool = True) -> int:
    """Numbers to learn in a feed-forward layer: :math:`2 D H`, and the biases.

    Examples:
        >>> feedforward_parameters(768, 3072)
        4722432
    """
    _check_counts(embed_dim=embed_dim, hidden=hidden)
    return 2 * embed_dim * hidden + bias * (embed_dim + hidden)


# --- kernels and checks --------------------------------------------------------------------


def _letters(sizes: Sizes) -> tuple[int, int, int, int, int, int, int]:
    """``n, m, d_k, d_v, h, h_kv`` and the bytes of a number, with h and h_kv times the batch."""
    heads, key_heads = sizes.batch * sizes.num_heads, sizes.batch * sizes.kv_heads
    return sizes.n, sizes.m, sizes.d_k, sizes.d_v, heads, key_heads, _itemsize(sizes.dtype)


def _kernel(read: int, written: int, size: int, *, elementwise: int) -> Cost:
    """One kernel that reads and writes so many numbers of ``size`` bytes."""
    return Cost(Operations(elementwise=elementwise), size * read, size * written)


def _pass(count: int, size: int, *, elementwise: int = 0, exponentials: int = 0) -> Cost:
    """One kernel over a tensor, with so many operations for each of its ``count`` numbers."""
    operations = Operations(elementwise=elementwise, exponentials=exponentials) * count
    return Cost(operations, size * count, size * count)


def _matmul(batch: int, rows: int, inner: int, columns: int, size: int) -> Cost:
    """One kernel: ``batch`` products of ``(rows, inner)`` and ``(inner, columns)``."""
    return Cost(
        Operations(matmul=2 * batch * rows * inner * columns),
        size * batch * inner * (rows + columns),
        size * batch * rows * columns,
    )


def _linear(tokens: int, d_in: int, d_out: int, size: int, bias: bool) -> Cost:
    """One kernel: a product with a matrix of parameters, which starts from the bias."""
    return _matmul(1, tokens, d_in, d_out, size) + Cost(bytes_read=size * d_out * bias)


def _limits(n: int, m: int, window: Window) -> tuple[int, int]:
    """``window`` with numbers for None, at which it leaves out no key."""
    for limit in window:
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, Integral)):
            raise TypeError(
                f"window: expected (left, right) of integers or None, got {window}. None is "
                "without limit; causal is (None, 0)."
            )
    left, right = window
    if left is not None and right is not None and left + right < 0:
        raise ValueError(
            f"window: expected left + right of at least 0, got {window}. Query i sees the keys "
            "i - left to i + right; the last w keys are (w - 1, 0)."
        )
    return n if left is None else left, m if right is None else right


def _clamped_sum(n: int, start: int, m: int) -> int:
    """The sum of ``min(max(start + i, 0), m)`` over i from 0 to n - 1."""

    def ramp(shift: int) -> int:  # the sum of max(shift + i, 0)
        return math.comb(max(shift + n, 0), 2) - math.comb(max(shift, 0), 2)

    return ramp(start) - ramp(start - m)


def _itemsize(dtype: torch.dtype) -> int:
    if not isinstance(dtype, torch.dtype):
        raise TypeError(
            f"dtype: expected a torch.dtype, got {dtype!r}. Write for example torch.float16."
        )
    return dtype.itemsize


def _check_counts(least: int = 1, /, **counts: int) -> None:
    for name, count in counts.items():
        check_integer(name, count, least, "Read it off the shape of a tensor.")
