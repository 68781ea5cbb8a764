"""Nyström attention: the matrix of weights rebuilt from a few of its rows and columns."""

from typing import Any

import torch
from torch import Tensor

from attnref._autocast import own_precision
from attnref._door import check_neutral, enter
from attnref.checks import check_integer
from attnref.record import Example, Method
from attnref.variants.linformer import mean_projection

__all__ = ["nystrom_attention"]


def nystrom_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    num_landmarks: int | None = None,
    iterations: int = 6,
) -> Tensor:
    r"""Attention through landmarks: means of consecutive queries and of consecutive keys.

        O = F A⁺(B V)
        F = softmax(c QK̃ᵀ), A = softmax(c Q̃K̃ᵀ), B = softmax(c Q̃Kᵀ)

    The pseudo-inverse is found by iteration, with products alone, from
    ``Z_0 = Aᵀ / (|A|_1|A|_(∞))``:

        Z ← 1/4 Z (13 I - AZ (15 I - AZ (7 I - AZ)))

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: None, for PyTorch's order of arguments.
        dropout_p: 0.0, likewise.
        is_causal: False, likewise.
        scale: the factor c; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        num_landmarks: the rank r, from 1 to the smaller of n and m; segments differ by one token
            where it does not divide the length. None means 64, or all tokens of a shorter sequence.
        iterations: steps of the pseudo-inverse, 1 or more.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``; zeros without keys.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    Exact for r = n = m, where A is invertible and the iteration has converged; otherwise there is
    no bound on the output. Weights may be negative, though with an invertible A they sum to 1.
    More landmarks help as long as A is well conditioned. On data without structure it is not: the
    pseudo-inverse then errs more than the mean of the values does, and the few iterations, which
    stop short of it, hardly less. Each landmark mixes past and future, so there is no causal
    form; and padding among its tokens, so there is no mask: compute sequences of other lengths
    separately. A NaN or inf reaches every query. Half precision is computed in float32.

    Time ``2 r (n + m) (d_k + d_v)`` operations and ``8 r³`` per iteration; memory ``O((n + m) r)``.

    Source: Xiong et al. 2021, arXiv 2102.03902.

    Examples:
        >>> tokens, value = torch.tensor([[0.0], [3.0]]), torch.tensor([[10.0], [20.0]])
        >>> nystrom_attention(tokens, tokens, value, num_landmarks=2, iterations=12)
        tensor([[15.0000],
                [19.9988]])
    """
    advice = "A landmark is a mean of tokens, past and future alike."
    check_neutral(advice, attn_mask=attn_mask, is_causal=is_causal)
    call = enter(query, key, value, None, dropout_p, False, scale, enable_gqa)
    *_, n, m = call.shape
    advice = "Landmarks are means of at least one token; 64 of them and 6 iterations are usual."
    if num_landmarks is None:
        num_landmarks = min(64, max(n, 1), max(m, 1))
    num_landmarks = check_integer(
        "num_landmarks", num_landmarks, 1, advice, most=min(max(n, 1), max(m, 1))
    )
    iterations = check_integer("iterations", iterations, 1, advice)
    q, k, v = call.tensors()
    if 0 in (n, m):
        return (q @ k.mT @ v).to(query.dtype)  # sums of nothing: zeros
    q = q * call.scale
    with own_precision(query.device):
        landmark_q, landmark_k = (
            mean_projection(num_landmarks, x.shape[-2], dtype=x.dtype, device=x.device) @ x
            for x in (q, k)
        )  # (..., r, d_k) each
        core = torch.softmax(landmark_q @ landmark_k.mT, -1)  # (..., r, r)
        columns = torch.softmax(q @ landmark_k.mT, -1)  # (..., n, r)
        rows = torch.softmax(landmark_q @ k.mT, -1)  # (..., r, m)
        inner = _pseudo_inverse(core, iterations) @ (rows @ v)  # (..., r, d_v)
        return (columns @ inner).to(query.dtype)  # (..., n, d_v)


def _pseudo_inverse(matrix: Tensor, iterations: int) -> Tensor:
    size = matrix.abs()  # (..., r, r)
    bound = size.sum(-2).amax(-1) * size.sum(-1).amax(-1)  # (...,)
    inverse = matrix.mT / bound[..., None, None]  # (..., r, r)
    unit = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)  # (r, r)
    for _ in range(iterations):
        product = matrix @ inverse  # (..., r, r)
        nested = 13 * unit - product @ (15 * unit - product @ (7 * unit - product))
        inverse = inverse @ nested / 4
    return inverse  # (..., r, r)


def _landmarks(given: Example) -> dict[str, Any]:
    return {"num_landmarks": max(1, min(64, given.n // 4, given.m // 4))}


METHOD = Method(
    function=nystrom_attention,
    page="variants/nystrom",
    formula=None,
    neutral=("attn_mask", "is_causal", "dropout_p"),
    example=_landmarks,
    plain=None,
    peers=("nystrom-attention",),
)
