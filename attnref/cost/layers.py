"""The cost of the layers around attention, and their parameters."""

from typing import Literal

import torch

from attnref.cost.kernels import kernel, letters, linear_layer, pass_over
from attnref.cost.operations import Cost
from attnref.cost.sizes import Sizes, check_sizes, check_type, itemsize

Gate = Literal["headwise", "elementwise"]


def multihead(
    sizes: Sizes, embed_dim: int, core: Cost, *, bias: bool = True, gate: Gate | None = None
) -> Cost:
    r"""A multi-head layer: four projections around a core.

        8nD² + 4n²D operations in products, for n=m, hd_k=hd_v=D

    so the core outweighs the projections only for ``n>2D``, and projections and
    :func:`feedforward` together, ``24nD²``, only for ``n>6D``::

        query, key, value = linear(x, W_q), linear(x, W_k), linear(x, W_v)  # heads are views
        output = core(query, key, value)                # (b, h, n, d_v)
        output = output * sigmoid(linear(x, W_g))       # only with a gate; heads are views
        output = heads side by side                     # (b, n, h d_v), a copy
        output = linear(output, W_o)                    # (b, n, D)

    Args:
        sizes: of query, key and value; n new tokens are projected, older keys come from a cache.
        embed_dim: D, the size of a row of x and of the output.
        core: cost of the attention between, such as ``cost.of("plain", sizes)``.
        bias: whether the projections have one; it is the accumulator, read at no operation.
        gate: as in :class:`attnref.MultiHeadAttention`: one number per head and token, or one for
            each of the d_v components, or None. A sigmoid is an exponential and two operations.

    Raises:
        ValueError: for an embed_dim below 1, or a gate of another name.

    Exact for the program above. In products, training costs three times the forward pass: each
    product has two gradients.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2; gates: Qiu et al. 2025,
    arXiv 2505.06708.

    Examples:
        >>> from attnref import cost
        >>> sizes = Sizes(n=512, m=512, d_k=64, d_v=64, num_heads=12)
        >>> core = cost.of("plain", sizes)
        >>> layer = multihead(sizes, 768, core) + feedforward(512, 768, 3072)
        >>> core.operations.matmul / layer.operations.matmul
        0.1
    """
    n, _, d_k, d_v, h, _, size = letters(sizes)
    check_sizes(embed_dim=embed_dim)
    tokens = sizes.batch * n
    projected = tokens * (sizes.num_heads * d_k + sizes.kv_heads * (d_k + d_v))
    joined = h * n * d_v
    peak = max(
        size * projected + core.peak_bytes,
        size * (joined + max(joined, tokens * embed_dim)),
    )
    return (
        linear_layer(tokens, embed_dim, sizes.num_heads * d_k, size, bias)
        + linear_layer(tokens, embed_dim, sizes.kv_heads * d_k, size, bias)
        + linear_layer(tokens, embed_dim, sizes.kv_heads * d_v, size, bias)
        + core
        + _gate_cost(sizes, embed_dim, bias, gate)
        + pass_over(joined, size)
        + linear_layer(tokens, sizes.num_heads * d_v, embed_dim, size, bias)
        + Cost(peak_bytes=peak)
    )


def _gates(sizes: Sizes, gate: str | None) -> int:
    """How many gates a token has."""
    if gate not in (None, "headwise", "elementwise"):
        raise ValueError(
            f"gate: expected 'headwise', 'elementwise' or None, got {gate!r}. Headwise is one "
            "number per head and token, elementwise one for each component of its answer."
        )
    return 0 if gate is None else sizes.num_heads * (1 if gate == "headwise" else sizes.d_v)


def _gate_cost(sizes: Sizes, embed_dim: int, bias: bool, gate: str | None) -> Cost:
    """The gates, and the answers of all heads times them, while queries, keys and values go."""
    gates, size, tokens = _gates(sizes, gate), itemsize(sizes.dtype), sizes.batch * sizes.n
    if not gates:
        return Cost()
    answers = tokens * sizes.num_heads * sizes.d_v
    return (
        linear_layer(tokens, embed_dim, gates, size, bias)
        + pass_over(tokens * gates, size, elementwise=2, exponentials=1)
        + kernel(answers + tokens * gates, answers, size, elementwise=answers)
        + Cost(peak_bytes=size * max(answers + 2 * tokens * gates, 2 * answers + tokens * gates))
    )


def feedforward(
    tokens: int,
    embed_dim: int,
    hidden: int,
    *,
    bias: bool = True,
    dtype: torch.dtype = torch.float32,
) -> Cost:
    r"""The layer after attention: ``ReLU(x W_1) W_2``, and the biases.

        4nDH operations in products, 16nD² for H = 4D

    Another activation changes the other operations only: here, one maximum for each hidden
    number.

    Args:
        tokens: rows of x, batch times n.
        embed_dim: D, the size of a row.
        hidden: H, the size between.
        bias: whether the two linear layers have one.
        dtype: of all tensors.

    Raises:
        ValueError, TypeError: for a size below 1 or something that is not a dtype.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.3.

    Examples:
        >>> feedforward(512, 768, 3072).operations.matmul == 16 * 512 * 768**2
        True
    """
    check_sizes(tokens=tokens, embed_dim=embed_dim, hidden=hidden)
    size, inner = itemsize(dtype), tokens * hidden
    return (
        linear_layer(tokens, embed_dim, hidden, size, bias)
        + pass_over(inner, size, elementwise=1)
        + linear_layer(tokens, hidden, embed_dim, size, bias)
        + Cost(peak_bytes=size * (inner + max(inner, tokens * embed_dim)))
    )


def parameters(
    sizes: Sizes,
    embed_dim: int,
    *,
    hidden: int | None = None,
    bias: bool = True,
    gate: Gate | None = None,
) -> int:
    r"""Numbers to learn in a multi-head layer and, with ``hidden``, in the feed-forward one.

        D (h+h_kv)(d_k+d_v) + 2DH

    and the biases. A gate adds ``Dh``, elementwise ``Dhd_v``.

    Args:
        sizes: the heads and their widths; n, m and batch do not matter.
        embed_dim: D, as in :func:`multihead`.
        hidden: H, as in :func:`feedforward`; None means without that layer.
        bias: whether linear layers have one.
        gate: as in :func:`multihead`.

    Raises:
        ValueError: for a size below 1, or a gate of another name.

    Examples:
        >>> sizes = Sizes(n=1, m=1, d_k=64, d_v=64, num_heads=12)
        >>> parameters(sizes, 768, bias=False), parameters(sizes, 768, hidden=3072, bias=False)
        (2359296, 7077888)
    """
    check_type(sizes)
    check_sizes(embed_dim=embed_dim)
    key, query = sizes.kv_heads, sizes.num_heads
    gates = _gates(sizes, gate)
    biases = query * sizes.d_k + key * (sizes.d_k + sizes.d_v) + embed_dim + gates
    weights = (query + key) * (sizes.d_k + sizes.d_v) + gates
    found = embed_dim * weights + bias * biases
    if hidden is not None:
        check_sizes(hidden=hidden)
        found += 2 * embed_dim * hidden + bias * (embed_dim + hidden)
    return found
