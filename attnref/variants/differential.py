r"""Differential attention: the difference of two softmax attentions to the same values.

    O = (softmax(c Q_1 K_1ᵀ) - λ softmax(c Q_2 K_2ᵀ)) V

What the second map says of a key, the first must exceed. Products with the values come before the
difference, so that each map stays in the blocks of a kernel that does not know of the other.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from attnref import checks
from attnref._door import check_without_gradient, enter
from attnref.masks import Mask
from attnref.record import Example, Method
from attnref.reference import scaled_dot_product_attention
from attnref.variants.blockwise import blockwise

__all__ = ["LearnedLambda", "differential_attention"]


def differential_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lambd: Tensor | float,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    r"""The average of the values by one softmax, less lambda times that by another.

        o_i = Σ_j (p^(1)_ij - λ p^(2)_ij) v_j
        p^(a)_ij ∝ exp(c q^(a)_i·k^(a)_j)

    The first half of the components of query and key belongs to the first map, the second half to
    the second: a layer is given twice the width of a head for queries and keys, and nothing else
    changes. Each row of weights sums to ``1-λ``, and a weight may be negative.

    Args:
        query: ``(..., n, 2 d_k)``, both queries side by side; any floating dtype of 16 bits or
            more. Where the two are heads of their own, ``torch.cat`` sets them side by side.
        key: ``(..., m, 2 d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        lambd: ``λ``, a number, or a tensor that broadcasts to ``(..., n, 1)``: of no
            dimension for all heads, ``(h, 1, 1)`` for one per head. It has a gradient.
        attn_mask: a mask of :mod:`attnref.masks`, or a tensor that broadcasts to
            ``(..., n, m)``, for both maps. Bool: ``True`` = may attend. Float: added to the
            scores, ``-inf`` = may not attend; without gradient.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i (top-left alignment when n != m).
        scale: the factor c; None means ``1/sqrt(d_k)``, of one half.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.

    Returns:
        ``(..., n, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Exact up to rounding, of the two averages in float32 or wider: the error is that of two
    attentions, the result may be much smaller than both. A query that may attend to no key gives
    zeros and finite gradients. A NaN or inf reaches queries that may not attend to it, as in
    :func:`attnref.blockwise_attention`. Time twice that of attention with
    these widths, ``4 p (d_k + d_v)`` operations for p pairs; memory ``O((n + m) (d_k + d_v))``,
    derivatives as there.

    Source: Ye et al. 2024, arXiv 2410.05258, equation 1.

    Examples:
        >>> query = torch.tensor([[1.0, 0.0, 1.0, 0.0]])  # the second map does not tell keys apart
        >>> key = torch.tensor([[9.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
        >>> value = torch.tensor([[10.0], [20.0]])
        >>> differential_attention(query, key, value, 1.0)  # 10 less the mean
        tensor([[-4.9828]])
    """
    call = enter(query, key, value, attn_mask, dropout_p, is_causal, None, enable_gqa)
    check_without_gradient(attn_mask)
    width = _half_width(query)
    factor = _checked_lambda(lambd, query, call.shape)
    # Half precision is left behind here: the difference would keep the roundings of both averages.
    wide, scale = value.to(call.dtype), checks.check_scale(scale, width)
    queries, keys = (torch.split(x.to(call.dtype), width, -1) for x in (query, key))
    first, second = (
        blockwise(call._replace(query=q, key=k, value=wide, scale=scale))  # (..., n, d_v)
        for q, k in zip(queries, keys, strict=True)
    )
    return (first - factor * second).to(query.dtype)


class LearnedLambda(nn.Module):
    r"""The factor of the second map, learned through the products of two pairs of vectors.

        λ = e^(λ_q1·λ_k1) - e^(λ_q2·λ_k2) + λ_init
        λ_init = 0.8 - 0.6 e^(-0.3 (l-1))

    Its gradient moves vectors of the width of a head, as it does queries and keys. It starts near
    ``λ_init`` and has no bounds: it may become negative, or larger than 1.

    Args:
        head_dim: ``d_k``, the number of components of each of the four vectors.
        layer: l, counted from 1: the deeper the layer, the nearer to 0.8 it starts.
        std: standard deviation of the normal distribution that the vectors are drawn from.
        generator: source of the random numbers, None = PyTorch's global one.
        device, dtype: of the vectors.

    Raises:
        TypeError, ValueError: for a width or a layer below 1.

    ``initial`` is ``λ_init``, a number from 0.2 to 0.8, which is not learned.

    Calling it returns ``λ``, a tensor without dimensions, for the ``lambd`` of
    :func:`differential_attention`. It is formed in float32 at least.

    Source: Ye et al. 2024, arXiv 2410.05258, equation 2 and section 2.1; the deviation is that of
    its code.

    Examples:
        >>> with torch.no_grad():
        ...     LearnedLambda(8, layer=1, std=0.0)()
        tensor(0.2000)
    """

    def __init__(
        self,
        head_dim: int,
        *,
        layer: int,
        std: float = 0.1,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        checks.check_integer("head_dim", head_dim, 1, "It is half of query.shape[-1].")
        checks.check_drawn(generator=generator, kind=torch.Generator, dtype=dtype)
        layer = checks.check_integer("layer", layer, 1, "Code that counts from 0 adds 1.")
        self.initial = 0.8 - 0.6 * math.exp(-0.3 * (layer - 1))
        vectors = torch.empty(2, 2, head_dim, device=device, dtype=dtype)
        self.vectors = nn.Parameter(vectors)  # for each map one of the query, one of the key
        nn.init.normal_(self.vectors, std=std, generator=generator)

    def forward(self) -> Tensor:
        vectors = self.vectors.to(torch.promote_types(self.vectors.dtype, torch.float32))
        first, second = torch.unbind(vectors.prod(1).sum(-1).exp())
        return first - second + self.initial


def _half_width(query: Tensor) -> int:
    """The width of the query of one map."""
    width = query.shape[-1]
    if width % 2:
        raise ValueError(
            f"query: expected an even width, that of two queries side by side, got {width}. Set "
            "them side by side with torch.cat([first, second], -1), and the keys likewise."
        )
    return width // 2


def _checked_lambda(lambd: Tensor | float, query: Tensor, shape: checks.Shape) -> Tensor | float:
    advice = "LearnedLambda gives a tensor; a number is the same for all rows."
    if not isinstance(lambd, Tensor):
        return checks.check_number("lambd", lambd, advice, most="a number or a tensor")
    if not lambd.is_floating_point():
        raise TypeError(f"lambd: expected a floating dtype, got {lambd.dtype}. {advice}")
    if lambd.device != query.device and lambd.dim():
        raise ValueError(
            f"lambd: expected device {query.device}, where query is, got {lambd.device}. Move it "
            "with lambd.to(query.device)."
        )
    rows = (*shape[:-1], 1)
    if checks.broadcast_shape(lambd.shape, rows) != rows:
        raise ValueError(
            f"lambd: expected a shape that broadcasts to {rows}, one factor for each row, got "
            f"{tuple(lambd.shape)}. One per head is lambd[:, None, None]."
        )
    return lambd


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    lambd: Tensor | float,
    **options: Any,
) -> Tensor:
    """The definition twice, and the difference."""
    first, second = (
        scaled_dot_product_attention(q, k, value, attn_mask, **options)
        for q, k in zip(query.chunk(2, -1), key.chunk(2, -1), strict=True)
    )
    return first - lambd * second


def _lambd(_: Example) -> dict[str, Any]:
    return {"lambd": 0.6}


def _equal_maps(given: Example) -> dict[str, Any]:
    """Two equal maps, of which one half is taken away."""
    query, key = (torch.cat([x, x], -1) for x in (given.query, given.key))
    return {"query": query, "key": key, "value": 2 * given.value, "lambd": 0.5}


METHOD = Method(
    function=differential_attention,
    page="variants/differential",
    formula=_formula,
    example=_lambd,
    plain=_equal_maps,
    isolates=(),
    tasks=("differential",),
)
