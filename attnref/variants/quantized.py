r"""Quantised attention: queries and keys of 8 or 4 bits, with the size of their steps beside them.

    x̂ = Δ round(x/Δ)
    Δ = max_l |x_l| / 127

for integers; for floating-point formats, round gives the nearest number of the format, and its
largest number, 448 or 6, takes the place of 127. A step serves one token, a block of tokens or a
group of components.
"""

from typing import NamedTuple, Union

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref import checks
from attnref._autocast import own_precision
from attnref._door import Call, check_tensors, check_without_gradient, enter
from attnref.masks import Mask
from attnref.record import Error, Method
from attnref.reference import softmax_weights
from attnref.variants._formats import (
    FOUR_BITS,
    LARGEST,
    power_of_two_above,
    round_to_format,
    to_numbers,
)
from attnref.variants.blockwise import blockwise

__all__ = ["QuantizedTokens", "quantize", "quantized_attention"]


class QuantizedTokens(NamedTuple):
    r"""Tokens in few bits and the size of their steps, of which they are multiples.

    Attributes:
        values: ``(..., n, d)`` of int8 or a float8 format; of ``torch.float4_e2m1fn_x2``
            ``(..., n, d / 2)``, two numbers in each byte.
        step: ``(..., blocks, groups)``, one for each block of tokens and group of components, of
            float32, or float64 for tokens of float64; of ``torch.float8_e8m0fnu``; or steps that
            are themselves quantised.

    With a step per token they take ``n (d + 4)`` bytes: 27% of float32 and 53% of half precision
    at d = 64.

    Examples:
        >>> QuantizedTokens(torch.tensor([[127, -64]]), torch.tensor([[0.5]])).dequantize()
        tensor([[ 63.5000, -32.0000]])
    """

    values: Tensor
    step: Union[Tensor, "QuantizedTokens"]

    @property
    def nbytes(self) -> int:
        """Bytes of the values and of the steps."""
        return self.values.nbytes + self.step.nbytes

    def dequantize(self) -> Tensor:
        """The tokens that the numbers stand for, ``(..., n, d)``, in the dtype of the steps."""
        numbers = to_numbers(self.values)  # (..., n, d)
        return numbers * _expand_steps(_load_steps(self.step), numbers.shape)


class _Grid(NamedTuple):
    """What numbers are rounded to, and how many of them share a step."""

    dtype: torch.dtype = torch.int8
    block_size: int = 1
    group_size: int | None = None
    step_dtype: torch.dtype | None = None


def quantize(
    tokens: Tensor,
    *,
    dtype: torch.dtype = torch.int8,
    block_size: int = 1,
    group_size: int | None = None,
    step_dtype: torch.dtype | None = None,
) -> QuantizedTokens:
    r"""Each token in few bits, scaled so that its largest component is the format's largest number.

        z = round(x/Δ)
        Δ = max_l|x_l| / z_max

    Args:
        tokens: ``(..., n, d)``, any floating dtype of 16 bits or more.
        dtype: ``torch.int8``, with ``z_max`` = 127; ``torch.float8_e4m3fn``, 448;
            ``torch.float8_e5m2``, 57344; or ``torch.float4_e2m1fn_x2``, 6, for even d.
        block_size: at most this many consecutive tokens share a step, in as few blocks as possible,
            all of the same size except the last.
        group_size: at most this many consecutive components of a token share a step, divided in
            the same way; None means all d.
        step_dtype: None keeps steps in float32, in float64 for tokens of float64.
            ``torch.float8_e8m0fnu`` takes the next larger power of two (MXFP4: groups of 32).
            ``torch.float8_e4m3fn`` rounds steps to that format, under one step of float32 for
            all steps of a sample (NVFP4: groups of 16).

    Returns:
        The :class:`QuantizedTokens`; zeros stay zeros, and what shares a step with NaN or inf
        becomes NaN, which with steps of e4m3 is the whole sample. They carry no gradient.

    Raises:
        TypeError, ValueError: for anything but a floating tensor, tokens without components, and
            formats or sizes that are not supported.

    A component errs by at most ``Δ/2`` in int8, and rounding: one large component coarsens
    all others of its step. In e4m3 it errs by at most ``max(|x|/17, 2^(-10)Δ)``, in
    e5m2 ``max(|x|/9, 2^(-17)Δ)``, in e2m1 ``max(|x|/5, Δ/4)``, and rounding:
    what is small beside the step is still lost. A step of e4m3 can be rounded down, and then the
    largest component is cut off: by at most a seventeenth of it, unless the step is below
    ``2^(-14)`` of the largest one. Tokens of float64 are divided in float64 and rounded by way
    of float32. Time and memory ``O(n d)``.

    Source: formats: Micikevicius et al. 2022, arXiv 2209.05433 (e4m3, e5m2); Rouhani et al. 2023,
    arXiv 2310.10537 (e2m1, e8m0), where the power of two may be chosen lower, and cuts off.

    Examples:
        >>> quantize(torch.tensor([[0.5, -1.0]])).values
        tensor([[  64, -127]], dtype=torch.int8)
        >>> quantize(torch.tensor([[0.3, -6.0]]), dtype=torch.float8_e4m3fn).dequantize()
        tensor([[ 0.2946, -6.0000]])
    """
    check_tensors(tokens=tokens)
    if tokens.dim() == 0 or tokens.shape[-1] == 0:
        raise ValueError(
            f"tokens: expected shape (..., n, d) with d of at least 1, got {tuple(tokens.shape)}. "
            "The largest component of a token sets its step."
        )
    grid = _grid(dtype, block_size, group_size, step_dtype)
    if dtype == FOUR_BITS and tokens.shape[-1] % 2:
        raise ValueError(
            f"tokens: expected an even number of components for {dtype}, got {tokens.shape[-1]}. "
            "Two numbers of four bits share a byte: append a zero."
        )
    if block_size > 1 and tokens.dim() == 1:
        raise ValueError(
            f"tokens: expected shape (..., n, d) for blocks of {block_size} tokens, got "
            f"{tuple(tokens.shape)}. A single token has a step of its own."
        )
    return _quantize(tokens, grid)


def _grid(
    dtype: torch.dtype, block_size: int, group_size: int | None, step_dtype: torch.dtype | None
) -> _Grid:
    if not isinstance(dtype, torch.dtype) or dtype not in LARGEST:
        raise TypeError(
            f"dtype: expected one of {', '.join(map(str, LARGEST))}, got {dtype}. These are the "
            "formats that tokens are rounded to."
        )
    if step_dtype not in (None, torch.float8_e8m0fnu, torch.float8_e4m3fn):
        raise TypeError(
            "step_dtype: expected None, torch.float8_e8m0fnu or torch.float8_e4m3fn, got "
            f"{step_dtype}. None keeps steps in float32."
        )
    advice = "It is the number of tokens that share a step; 1 gives each its own."
    block_size = checks.check_integer("block_size", block_size, 1, advice)
    if group_size is not None:
        advice = "It is the number of components that share a step; None means all of a token."
        group_size = checks.check_integer("group_size", group_size, 1, advice)
    return _Grid(dtype, block_size, group_size, step_dtype)


def _quantize(tokens: Tensor, grid: _Grid) -> QuantizedTokens:
    scaled, kept = _scale_tokens(tokens, grid)
    return QuantizedTokens(round_to_format(scaled, grid.dtype), kept)


def _scale_tokens(tokens: Tensor, grid: _Grid) -> tuple[Tensor, Tensor | QuantizedTokens]:
    """The tokens in units of their steps, ``(..., n, d)``, and the steps as they are kept."""
    wide = tokens.detach().to(torch.promote_types(tokens.dtype, torch.float32))  # (..., n, d)
    largest = wide.abs()
    for dim, size in ((-1, grid.group_size), (-2, grid.block_size)):
        if size != 1:
            largest = _largest(largest, dim, size)
    # largest is (..., blocks, groups)
    kept = _store_steps(largest / LARGEST[grid.dtype], grid.step_dtype)
    return wide / _expand_steps(_load_steps(kept), wide.shape), kept


def _largest(sizes: Tensor, dim: int, size: int | None) -> Tensor:
    """The largest in each block of at most ``size``; None means all."""
    length = sizes.shape[dim]
    if size is None or size >= length > 0:
        return sizes.amax(dim, keepdim=True)
    blocks = -(-length // size)
    each = -(-length // blocks) if blocks else 1
    missing = blocks * each - length
    filled = pad(sizes, (0, missing) if dim == -1 else (0, 0, 0, missing))
    return torch.unflatten(filled, dim, (blocks, each)).amax(dim)


def _store_steps(step: Tensor, dtype: torch.dtype | None) -> Tensor | QuantizedTokens:
    """Steps in the format in which they are kept, where none is 0."""
    if dtype == torch.float8_e4m3fn:
        if not step.numel():
            return QuantizedTokens(round_to_format(step, dtype), step[..., :1, :1])
        outer = step.amax(tuple(range(-min(step.dim(), 2), 0)), keepdim=True) / LARGEST[dtype]
        outer = torch.where(outer == 0, 1.0, outer)  # (..., 1, 1)
        smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        return QuantizedTokens(round_to_format((step / outer).clamp(min=smallest), dtype), outer)
    step = torch.where(step == 0, 1.0, step)
    return step if dtype is None else power_of_two_above(step)


def _load_steps(step: Tensor | QuantizedTokens) -> Tensor:
    """Steps as numbers, in float32 or float64."""
    if isinstance(step, QuantizedTokens):
        return step.dequantize()
    return step if step.itemsize > 1 else step.float()


def _expand_steps(step: Tensor, shape: torch.Size) -> Tensor:
    """The step of each number, in a shape that broadcasts to ``shape``."""
    for dim in range(-1, -min(len(shape), 2) - 1, -1):
        blocks, length = step.shape[dim], shape[dim]
        if 1 < blocks < length:
            each = -(-length // blocks)
            step = step.repeat_interleave(each, dim).narrow(dim, 0, length)
    return step


def quantized_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    smooth: bool = True,
    dtype: torch.dtype = torch.int8,
    block_size: int = 1,
    group_size: int | None = None,
    step_dtype: torch.dtype | None = None,
    values: bool = False,
    weights: bool = False,
) -> Tensor:
    r"""Exact softmax attention over queries and keys that were rounded to 8 bits, or to 4.

        o_i = Σ_j softmax_j(c q̂_i·k̂_j) v_j
        q̂ = quantize(q), k̂_j = quantize(k_j - k̄)

    Subtracting the mean key ``k̄`` changes a row of scores by the constant
    ``c q_i·k̄``, which softmax does not see; but it takes away what all keys have in
    common, such as one large channel, and with it the coarse steps.

    The second product can be rounded too: values, with steps along the tokens, and weights, as
    ``p̂_ij = quantize(p_ij/max_j p_ij) max_j p_ij``. The
    division is by the sum of the weights before rounding.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: a mask of :mod:`attnref.masks`, or a tensor that broadcasts to
            ``(..., n, m)``. Bool: ``True`` = may attend. Float: added to the scores, ``-inf`` =
            may not attend; without gradient.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i (top-left alignment when n != m).
        scale: the factor c; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        smooth: subtract the mean key. It is the mean of all keys, those behind a mask included:
            these move the steps, and so the rounding, of the others.
        dtype: of all that is rounded, as in :func:`quantize`; widths may be odd.
        block_size: at most this many queries, or keys, share a step.
        group_size: at most this many components of a query or key share a step, and likewise tokens
            of a channel of the values and weights of a row: a group runs along the sum of its
            product. None means all of them.
        step_dtype: the format of the steps, as in :func:`quantize`.
        values: whether values are rounded. A later token shares their steps, as it shares those
            of blocks, of steps of e4m3 and the mean key: only with none of these does it leave
            what is before it as it was.
        weights: whether weights are.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    A score of int8 errs by at most ``c (Δ_q/2 |k|_1 + Δ_k/2 |q|_1 + d_k/4 Δ_q Δ_k)``, one of e4m3,
    but for numbers below ``2^(-6) Δ``, by at most ``c (2u + u²) Σ_l |q_l k_l|`` with ``u = 1/17``;
    where no score of a row errs by more than ``ε``, its output moves by at most ``tanh(ε/2)`` times
    the largest distance between two values. Rounded values move it no further than the worst of
    them moved. In int8, Gaussian components give a relative error below 1% up to a width of 64, and
    1.1% at 512. A NaN or inf reaches every query: a key through the mean, a value through weights
    of 0.
    Gradients pass through the rounding as if it were the identity (straight-through).

    What is saved is memory, where keys are kept as :func:`quantize` returns them, not time:
    PyTorch's integer product writes its ``n m`` sums to memory, and loses to the fused kernel;
    products of eight-bit and four-bit floats are fast in kernels for GPUs that have units for them.
    So the kernel computes, on the rounded tokens, in float32 for half precision, with its own
    time, ``2 n m (d_k + d_v)`` operations, and ``O(n + m)`` extra memory; with rounded weights
    without it, and with memory for all ``n m`` of them.

    Source: Zhang et al. 2024 (SageAttention), arXiv 2410.02367, which computes with the
    integers; weights and values: Zhang et al. 2024 (SageAttention2), arXiv 2411.10958, and 2025
    (SageAttention3), arXiv 2505.11594, four bits; straight-through: Bengio et al. 2013, arXiv
    1308.3432.

    Examples:
        >>> query, key = torch.tensor([[1.0]]), torch.tensor([[0.0], [1.0], [2.0]])
        >>> quantized_attention(query, key, torch.tensor([[10.0], [20.0], [30.0]]))
        tensor([[25.7521]])
    """
    call = enter(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    check_without_gradient(attn_mask)
    _check_switches(smooth=smooth, values=values, weights=weights)
    grid = _grid(dtype, block_size, group_size, step_dtype)
    out_dtype = query.dtype
    query, key, value = (x.to(call.dtype) for x in call[:3])
    if smooth and key.shape[-2]:
        key = key - key.mean(-2, keepdim=True)  # (..., m, d_k)
    along = grid._replace(block_size=1)
    if values:
        value = _round_tokens(value.mT, along).mT  # (..., m, d_v)
    call = call._replace(
        query=_round_tokens(query, grid), key=_round_tokens(key, grid), value=value
    )
    output = _attend_rounded(call, along) if weights else blockwise(call)
    return output.to(out_dtype)  # (..., n, d_v)


def _check_switches(**switches: bool) -> None:
    for name, switch in switches.items():
        if not isinstance(switch, bool):
            raise TypeError(
                f"{name}: expected True or False, got {type(switch).__name__}. What is rounded is "
                "rounded to dtype, the same for all."
            )


def _round_tokens(tokens: Tensor, grid: _Grid) -> Tensor:
    """The quantised tokens, with the gradient of the tokens."""
    width = tokens.shape[-1]
    if width == 0:
        return tokens
    scaled, kept = _scale_tokens(tokens, grid)
    # After the steps are known: a component filled in would cut the groups in other places.
    even = pad(scaled, (0, width % 2)) if grid.dtype == FOUR_BITS else scaled
    numbers = to_numbers(round_to_format(even, grid.dtype))[..., :width]  # (..., n, d)
    found = numbers * _expand_steps(_load_steps(kept), numbers.shape)
    return tokens + (found - tokens).detach()  # (..., n, d)


def _attend_rounded(call: Call, grid: _Grid) -> Tensor:
    """The output with all weights in memory, rounded in rows whose largest is 1."""
    with own_precision(call.query.device):
        weights, _, _, value = softmax_weights(call)  # (..., n, m), (..., m, d_v)
        if not call.shape[-1]:
            return weights @ value
        largest = weights.detach().amax(-1, keepdim=True)  # (..., n, 1)
        largest = torch.where(largest == 0, 1.0, largest)
        return (_round_tokens(weights / largest, grid) @ value) * largest  # (..., n, d_v)


METHOD = Method(
    function=quantized_attention,
    page="variants/quantized",
    formula=None,
    plain=None,
    error=Error(bound=0.011),
    isolates=(),
    tasks=("dense", "causal"),
)
