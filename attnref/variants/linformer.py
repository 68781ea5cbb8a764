r"""Linformer: attention over a fixed number of mixtures of the keys.

.. math:: O = \mathrm{softmax}\!\left(c\,Q\,(EK)^\top\right) F V
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnref import checks
from attnref.reference import check_tensors

__all__ = ["linformer_attention", "mean_projection"]


def linformer_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    key_projection: Tensor,
    value_projection: Tensor,
    scale: float | None = None,
) -> Tensor:
    r"""Attention whose m keys and values were first mixed into r of each.

    .. math:: O = \mathrm{softmax}\!\left(c\,Q\,(EK)^\top\right) F V, \qquad
              E, F \in \mathbb R^{r\times m}

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., m, d_k)``, same dtype and device.
        value: ``(..., m, d_v)``, same dtype and device, same leading dimensions as ``key``.
        key_projection: the E, ``(r, m)`` or ``(..., r, m)`` with leading dimensions that
            broadcast, same device. A parameter of the model, as is F; the same tensor for both
            shares it. :func:`mean_projection` is one to start from.
        value_projection: the F, same shape.
        scale: the factor c; None means ``1/sqrt(d_k)``.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and the mend.

    Another function than attention over the m keys; equal to it for E = F = a permutation. The
    rank of random projections that suffices for given matrices does not grow with m, but what
    the error is with learned ones, training decides. Rows of E mix past and future, so there is
    no causal form; its m columns fix the length, so there is no cache to append to.

    Time ``2 r m (d_k + d_v) + 2 n r (d_k + d_v)`` operations; memory ``O(r (d_k + d_v))`` beside
    the result, for the fused kernel attends to the mixtures.

    Source: Wang et al. 2020, arXiv 2006.04768, equation 7.

    Examples:
        >>> tokens, value = torch.zeros(4, 1), torch.tensor([[1.0], [3.0], [5.0], [7.0]])
        >>> pairs = mean_projection(2, 4)
        >>> linformer_attention(tokens, tokens, value, key_projection=pairs, value_projection=pairs)
        tensor([[4.],
                [4.],
                [4.],
                [4.]])
    """
    check_tensors(
        query=query,
        key=key,
        value=value,
        key_projection=key_projection,
        value_projection=value_projection,
    )
    *_, m = checks.scores_shape(query.shape, key.shape)
    checks.check_value(key.shape, value.shape)
    factor = checks.check_scale(scale, query.shape[-1])
    for name, projection in (
        ("key_projection", key_projection),
        ("value_projection", value_projection),
    ):
        if projection.dim() < 2 or projection.shape[-1] != m:
            raise ValueError(
                f"{name}: expected shape (..., r, {m}), a column for each key, got "
                f"{tuple(projection.shape)}. It is made for one length: pad or cut key and value."
            )
    if key_projection.shape[-2] != value_projection.shape[-2]:
        raise ValueError(
            f"value_projection: expected {key_projection.shape[-2]} rows, as key_projection has, "
            f"got {value_projection.shape[-2]}. Each mixed key needs a mixed value."
        )
    mixed_key = key_projection @ key  # (..., r, d_k)
    mixed_value = value_projection @ value  # (..., r, d_v)
    return scaled_dot_product_attention(query, mixed_key, mixed_value, scale=factor)


def mean_projection(
    rank: int,
    length: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    r"""The projection that takes the mean of each of ``rank`` runs of consecutive tokens.

    Args:
        rank: the number r of runs, from 1 to ``length``.
        length: the number m of tokens; runs differ by one where r does not divide it.
        dtype, device: of the result.

    Returns:
        ``(rank, length)``, rows of sum 1.

    Raises:
        ValueError: for a rank out of range.

    Keys and values that change slowly along the sequence lose little by it, others much.

    Source: Wang et al. 2020, arXiv 2006.04768, section 4.

    Examples:
        >>> mean_projection(2, 3)
        tensor([[0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """
    if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= length:
        raise ValueError(
            f"rank: expected an integer from 1 to the length {length}, got {rank!r}. It is the "
            "number of mixtures of keys."
        )
    run = torch.arange(length, device=device) * rank // length  # (length,)
    member = run == torch.arange(rank, device=device)[:, None]  # (rank, length)
    member = member.to(dtype)
    return member / member.sum(-1, keepdim=True)
