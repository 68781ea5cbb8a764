r"""Quantised attention: queries and keys of 8-bit integers, one step size per token.

.. math:: \hat x = \Delta\,\mathrm{round}(x/\Delta), \qquad \Delta = \max_l |x_l| \,/\, 127
"""

from typing import NamedTuple

import torch
from torch import Tensor

from attnref._door import check_tensors, check_without_gradient, enter
from attnref.masks import Mask
from attnref.variants.blockwise import blockwise

__all__ = ["QuantizedTokens", "quantize", "quantized_attention"]


class QuantizedTokens(NamedTuple):
    r"""Tokens as integers and the size of their steps: :math:`\hat x = \Delta\,z`.

    Attributes:
        values: int8 ``(..., n, d)``, from -127 to 127.
        step: ``(..., n, 1)``, float32, or float64 for tokens of float64.

    They take ``n (d + 4)`` bytes: 27% of float32 and 53% of half precision at d = 64.

    Examples:
        >>> QuantizedTokens(torch.tensor([[127, -64]]), torch.tensor([[0.5]])).dequantize()
        tensor([[ 63.5000, -32.0000]])
    """

    values: Tensor
    step: Tensor

    def dequantize(self) -> Tensor:
        """The tokens that the integers stand for, ``(..., n, d)``, in the dtype of ``step``."""
        return self.values * self.step


def quantize(tokens: Tensor) -> QuantizedTokens:
    r"""Each token as 8-bit integers, scaled so that its largest component is 127.

    .. math:: z = \mathrm{round}(x/\Delta), \qquad \Delta = \max_l|x_l|\,/\,127

    Args:
        tokens: ``(..., n, d)``, any floating dtype.

    Returns:
        The :class:`QuantizedTokens`; a token of zeros has the step 1, one that holds NaN or inf
        a step that makes all of it NaN. They carry no gradient.

    Raises:
        TypeError, ValueError: for anything but a floating tensor, or tokens without components.

    A component errs by at most :math:`\Delta/2`, and rounding: one large component coarsens all
    others of its token. Time and memory ``O(n d)``.

    Examples:
        >>> quantize(torch.tensor([[0.5, -1.0]])).values
        tensor([[  64, -127]], dtype=torch.int8)
    """
    check_tensors(tokens=tokens)
    if tokens.dim() == 0 or tokens.shape[-1] == 0:
        raise ValueError(
            f"tokens: expected shape (..., n, d) with d of at least 1, got {tuple(tokens.shape)}. "
            "The largest component of a token sets its step."
        )
    return _quantize(tokens)


def _quantize(tokens: Tensor) -> QuantizedTokens:
    wide = tokens.detach().to(torch.promote_types(tokens.dtype, torch.float32))  # (..., n, d)
    largest = wide.abs().amax(-1, keepdim=True)  # (..., n, 1)
    step = torch.where(largest == 0, 1.0, largest / 127)  # (..., n, 1)
    return QuantizedTokens((wide / step).round().clamp(-127, 127).to(torch.int8), step)


def quantized_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    smooth: bool = True,
) -> Tensor:
    r"""Exact softmax attention of queries and keys that were rounded to 8 bits.

    .. math:: o_i = \sum_j \mathrm{softmax}_j\big(c\,\hat q_i\cdot\hat k_j\big)\,v_j, \qquad
              \hat q = \mathrm{quantize}(q), \quad \hat k_j = \mathrm{quantize}(k_j - \bar k)

    Subtracting the mean key :math:`\bar k` changes a row of scores by the constant
    :math:`c\,q_i\cdot\bar k`, which softmax does not see; but it takes away what all keys have in
    common, such as one large channel, and with it the coarse steps.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: a mask of :mod:`attnref.masks`, or a tensor that broadcasts to
            ``(..., n, m)``. Bool: ``True`` = may attend. Float: added to the scores, ``-inf`` =
            may not attend; without gradient.
        is_causal: query i sees the keys j <= i (top-left alignment when n != m).
        scale: the factor c; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        smooth: subtract the mean key. It is the mean of all keys, those behind a mask included:
            these move the steps, and so the rounding, of the others.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    A score errs by at most :math:`c\big(\tfrac{\Delta_q}2\|k\|_1 + \tfrac{\Delta_k}2\|q\|_1
    + \tfrac{d_k}4\Delta_q\Delta_k\big)`; where no score of a row errs by more than
    :math:`\varepsilon`, its output moves by at most :math:`\tanh(\varepsilon/2)` times the largest
    distance between two values. Gaussian components give a relative error below 1%
    up to a width of 64, and 1.1% at 512. A NaN or inf reaches every query: a key through the
    mean, a value through weights of 0.
    Gradients pass the rounding as if it were the identity (straight-through).

    What is saved is memory, where keys are kept as :func:`quantize` returns them, not time:
    PyTorch's integer product writes its ``n m`` sums to memory, and loses to the fused kernel.
    So the kernel computes, on the rounded tokens, in float32 for half precision, with its own
    time, ``2 n m (d_k + d_v)`` operations, and ``O(n + m)`` extra memory.

    Source: Zhang et al. 2024 (SageAttention), arXiv 2410.02367, which computes with the
    integers; straight-through: Bengio et al. 2013, arXiv 1308.3432.

    Examples:
        >>> query, key = torch.tensor([[1.0]]), torch.tensor([[0.0], [1.0], [2.0]])
        >>> quantized_attention(query, key, torch.tensor([[10.0], [20.0], [30.0]]))
        tensor([[25.7521]])
    """
    call = enter(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    check_without_gradient(attn_mask)
    dtype = query.dtype
    query, key, value = (x.to(call.dtype) for x in call[:3])
    if smooth and key.shape[-2]:
        key = key - key.mean(-2, keepdim=True)  # (..., m, d_k)
    call = call._replace(query=_rounded(query), key=_rounded(key), value=value)
    return blockwise(call).to(dtype)  # (..., n, d_v)


def _rounded(tokens: Tensor) -> Tensor:
    """The quantised tokens, with the gradient of the tokens."""
    return tokens + (_quantize(tokens).dequantize() - tokens).detach()  # (..., n, d)
