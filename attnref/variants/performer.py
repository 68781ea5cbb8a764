r"""Performer: softmax attention estimated in linear time, by random features that are positive.

    e^(x·y) = E_(w~N(0, I))[ e^(w·x - |x|²/2) e^(w·y - |y|²/2)]

where the mean is over Gaussian vectors.
"""

import math
from typing import Any

import torch
from torch import Tensor

from attnref import checks
from attnref._door import check_generator, check_no_generator, check_tensors, enter, source_of
from attnref.masks import Mask
from attnref.record import Example, Method
from attnref.variants.linear import weighted_average

__all__ = ["performer_attention", "random_projection"]


def performer_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    projection: Tensor | None = None,
    generator: torch.Generator | None = None,
    block_size: int = 64,
) -> Tensor:
    r"""Linear attention with features whose products are, on average, the exponentials of softmax.

        o_i = φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ / (φ(q_i)ᵀ Σ_j φ(k_j))
        φ_l(x) = 1/√r e^(w_l·√c x - c|x|²/2)

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: which keys count, bool or a mask of :mod:`attnref.masks`, ``(..., 1, m)``, such
            as ``masks.padding(lengths, m)``: the others add nothing.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i (top-left alignment when n != m).
        scale: the factor c, not negative; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        projection: the vectors w, ``(r, d_k)``, on the device of ``query``, any floating dtype.
            The same one gives the same output. None draws ``d_k ln d_k`` of them, d_k at least,
            by :func:`random_projection`.
        generator: what draws them; None is one of seed 0, which draws the same at each call.
        block_size: tokens per chunk of the causal form; any number gives the same result.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``; zeros where all products underflow.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    The products are unbiased, with the variance, for independent vectors,
    ``1/r e^(2x·y)(e^(|x+y|²)-1)`` at ``x=√c q``,
    ``y=√c k``; their ratio is not unbiased, but it converges, with an error that falls
    as ``1/√r``. The exponential rules: components of variance 1 at ``d_k=64`` have
    ``|x+y|² ≈ 16``, and nine million features would leave an error as large as the
    exponential itself. Half precision is computed in float32. The largest exponent of a query, and
    of all keys unless causal, is subtracted, which cancels; the causal form leaves the exponents of
    the keys as they are, for a maximum over the keys would read the future, and so overflows
    beyond ``|w|²/2 ≈ 88`` and underflows beyond ``c|k|²/2 ≈ 87``.

    A NaN or inf in a key or value reaches every query, unless the mask leaves it out; in the
    causal form those that come later, and one in a value the earlier ones of its chunk, too.

    Time ``2 (n + m) r d_k + 4 n r d_v`` operations and memory ``O(n r)``; causal as in
    :func:`attnref.linear_attention`, with r features.

    Source: Choromanski et al. 2020, arXiv 2009.14794, lemmas 1 and 2.

    Examples:
        >>> projection = random_projection(4096, 1, generator=torch.Generator().manual_seed(0))
        >>> query, key = torch.tensor([[1.0]]), torch.tensor([[1.0], [0.0]])
        >>> value = torch.tensor([[10.0], [20.0]])  # softmax attention gives 12.69
        >>> performer_attention(query, key, value, projection=projection).round()
        tensor([[13.]])
    """
    call = enter(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    d_k = query.shape[-1]
    if projection is None:
        features, source = max(d_k, int(d_k * math.log(d_k))), source_of(generator)
        projection = random_projection(features, d_k, generator=source).to(query.device)
    else:
        check_no_generator(generator, "projection")
    _check_projection(projection, d_k, call.scale)

    def query_features(tokens: Tensor) -> Tensor:
        exponents = _exponents(tokens, projection, call.scale)  # (..., n, r)
        return torch.exp(exponents - exponents.detach().amax(-1, keepdim=True))  # (..., n, r)

    def key_features(tokens: Tensor) -> Tensor:
        exponents = _exponents(tokens, projection, call.scale)  # (..., m, r)
        if is_causal or tokens.shape[-2] == 0:
            return torch.exp(exponents)
        if (counts := call.key_mask()) is not None:  # (..., m, 1)
            # Or the largest could be one of padding, beside which the others underflow.
            exponents = exponents.masked_fill(~counts, -torch.inf)
        largest = exponents.detach().amax((-2, -1), keepdim=True)  # (..., 1, 1)
        return torch.exp(exponents - largest.clamp(min=torch.finfo(exponents.dtype).min))

    return weighted_average(
        call, query_features=query_features, key_features=key_features, block_size=block_size
    )


def _check_projection(projection: Tensor, width: int, scale: float) -> None:
    if scale < 0:
        raise ValueError(
            f"scale: expected a number of 0 or more, got {scale}. Its square root goes to query "
            "and key alike; for a negative one negate query."
        )
    check_tensors(projection=projection)
    if projection.dim() != 2 or projection.shape[-1] != width or not len(projection):
        raise ValueError(
            f"projection: expected shape (r, {width}), vectors as long as a query, got "
            f"{tuple(projection.shape)}. Draw it with random_projection(r, query.shape[-1], "
            "generator=generator)."
        )


def _exponents(tokens: Tensor, projection: Tensor, factor: float) -> Tensor:
    x = tokens.to(torch.promote_types(tokens.dtype, torch.float32)) * math.sqrt(factor)
    return x @ projection.to(x.dtype).mT - x.square().sum(-1, keepdim=True) / 2  # (..., n, r)


def random_projection(
    num_features: int,
    head_dim: int,
    *,
    orthogonal: bool = True,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    r"""Gaussian vectors, each ``N(0, I)``, independent or orthogonal in blocks.

    Orthogonal ones cover the directions evenly: products stay unbiased, for each vector alone is
    distributed as before, and their variance becomes smaller.

    Args:
        num_features: the number r of vectors.
        head_dim: their size, the d_k of query and key.
        orthogonal: make every ``head_dim`` of them orthogonal, their lengths drawn apart.
        generator: source of the numbers; its device is that of the result.
        dtype: of the result; the numbers are drawn in float32 at least.

    Returns:
        ``(num_features, head_dim)``.

    Raises:
        TypeError, ValueError: for a number below 1, or no generator.

    Time ``O(r d_k²)`` if orthogonal.

    Source: Choromanski et al. 2020, arXiv 2009.14794, theorem 2.

    Examples:
        >>> w = random_projection(2, 3, generator=torch.Generator().manual_seed(0))
        >>> w.shape, bool((w[0] @ w[1]).abs() < 1e-5)
        (torch.Size([2, 3]), True)
    """
    advice = "The projection has shape (num_features, head_dim), head_dim being query.shape[-1]."
    num_features = checks.check_integer("num_features", num_features, 1, advice)
    head_dim = checks.check_integer("head_dim", head_dim, 1, advice)
    check_generator(generator)
    checks.check_drawn(dtype=dtype)
    blocks, wide = -(-num_features // head_dim), torch.promote_types(dtype, torch.float32)
    shape = (2, blocks, head_dim, head_dim)
    gaussian = torch.randn(shape, generator=generator, device=generator.device, dtype=wide)
    if not orthogonal:
        return gaussian[0].flatten(0, 1)[:num_features].to(dtype)  # (r, d_k)
    directions, triangle = torch.linalg.qr(gaussian[0])  # (blocks, d_k, d_k) each
    # Without the signs the factor of a Gaussian matrix would not be uniform over rotations.
    directions = directions * triangle.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]
    lengths = torch.linalg.vector_norm(gaussian[1], dim=-1, keepdim=True)  # (blocks, d_k, 1)
    vectors: Tensor = directions.mT * lengths  # (blocks, d_k, d_k)
    return vectors.flatten(0, 1)[:num_features].to(dtype)  # (r, d_k)


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    projection: Tensor,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    block_size: int = 64,
) -> Tensor:
    """The products of features as a table of all pairs, without a shift of exponents."""
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    factor = checks.check_scale(scale, query.shape[-1])
    q, k = (_exponents(x, projection, factor).exp() for x in (query, key))
    weights = q @ k.mT  # (..., n, m)
    if is_causal:
        weights = weights.tril()
    if attn_mask is not None:
        seen = attn_mask.dense(query.device) if isinstance(attn_mask, Mask) else attn_mask
        weights = weights.masked_fill(~seen, 0.0)
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0) @ value


def _features(given: Example) -> dict[str, Any]:
    features = 256 if given.m >= 256 else 16
    projection = random_projection(features, given.d_k, generator=given.generator)
    return {"projection": projection.to(given.query)}


METHOD = Method(
    function=performer_attention,
    page="variants/performer",
    formula=_formula,
    example=_features,
    plain=None,
    family="kernel",
    peers=("performer-pytorch",),
    masks="keys",
    ways={"block_size": (1, 3, 5)},
    isolates=("mask",),
    least_scale=0.0,
    tasks=("dense", "causal"),
)
