r"""Decoding: the newest tokens attend to all that a cache holds, query heads in groups.

A step reads the whole cache once for a handful of multiplications, so what counts is how often
the cache is read. The r query heads that share a key head become r queries of that head:

.. math:: (h_q, 1, d_k) \to (h_k, r, d_k), \qquad r = h_q / h_k
"""

from torch import Tensor

from attnref._door import enter, fused
from attnref.masks import Mask
from attnref.variants._autograd import is_derived
from attnref.variants.blockwise import blockwise

__all__ = ["kv_cache_attention"]


def kv_cache_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    sink: Tensor | float | None = None,
) -> Tensor:
    r"""Softmax attention of the n newest tokens to the m that a cache holds, their own included.

    .. math:: o_i = \sum_{j \le m-n+i} p_{ij} v_j

    The same function as :func:`attnref.scaled_dot_product_attention` under
    ``masks.causal(n, m, alignment="bottom-right")``, forward and backward. A single token sees
    the whole cache, so it needs no mask and goes to PyTorch's fused kernel, which would read a
    shared key head once for each of its query heads: as r queries of one head they read it once.
    Several tokens, a prompt or a draft, are computed as
    :func:`attnref.variants.blockwise.blockwise_attention` does.

    Args:
        query: ``(..., heads, n, d_k)``, or without heads; any floating dtype of 16 bits or more.
        key: ``(..., key heads, m, d_k)``, same dtype and device, with n <= m: what
            :meth:`attnref.KVCache.append` returned.
        value: ``(..., key heads, m, d_v)``, same dtype and device.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        sink: a score for each head, as in :func:`attnref.scaled_dot_product_attention`.

    Returns:
        ``(..., heads, n, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError: as the reference does, and for more queries than keys.

    Exact up to rounding. Unlike the reference, a NaN or inf of one new token reaches the others.
    Time ``2 h n m (d_k + d_v)`` operations; a single token reads
    ``h_k m (d_k + d_v)`` numbers, which is what limits it. Memory that of the output, and the
    scores of a token where d_k and d_v differ.

    Source: Shazeer 2019, arXiv 1911.02150; Ainslie et al. 2023, arXiv 2305.13245.

    Examples:
        >>> import torch
        >>> query, key = torch.zeros(4, 1, 2), torch.zeros(2, 3, 2)
        >>> value = torch.tensor([[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]])
        >>> kv_cache_attention(query, key, value, enable_gqa=True).flatten()
        tensor([2., 2., 5., 5.])
    """
    call = enter(query, key, value, scale=scale, enable_gqa=enable_gqa, sink=sink)
    *lead, n, m = call.shape
    if n > m:
        raise ValueError(
            f"key: expected at least as many keys as queries, {n}, got {m}. The newest tokens are "
            "in the cache too: append their keys and values first."
        )
    if n != 1:
        return blockwise(call._replace(attn_mask=Mask((n, m), lambda i, j: j <= i + m - n)))
    if enable_gqa:
        *before, heads = lead
        key_heads = key.shape[-3]
        if heads != key_heads:  # those that share a key head become the queries of one
            shape = (*before, key_heads, heads // key_heads, m)
            query = query.expand(*lead, 1, -1).reshape(*shape[:-1], -1)
            rows = call.sink
            if rows is not None:
                rows = rows.expand(*lead, 1, 1).reshape(*shape[:-1], 1)
            call = call._replace(query=query, shape=shape, sink=rows)
        call = call._replace(enable_gqa=False)
    single = sink is None and not is_derived(*call[:3])
    output = fused(call) if single else blockwise(call)
    return output.reshape(*lead, 1, value.shape[-1])
