"""Native sparse attention: a summary of every block, the best blocks in full, and a window.

Explained in variants/selected; with every option: attnref.native_sparse_attention.
"""

import torch


def causal_native_sparse_attention(query, key, value, gates, block_size, num_blocks, window):
    """Three attentions are added with gates, and the first chooses what the second reads.

        o_i = g_i1 Σ_J p̄_iJ v̄_J + g_i2 Σ_{j in N_i} p_ij v_j + g_i3 Σ_{i - w < j ≤ i} p'_ij v_j
        N_i: own block, the one before, the first, then those of largest p̄_iJ; of these, j ≤ i

    ``query``, ``key``: ``(..., n, d)``; ``value``: ``(..., n, d_v)``; ``gates``: ``(..., n, 3)``,
    sigmoids in the source; ``num_blocks``: how many blocks a query reads, its own among them. Time
    and memory grow with n times the keys that a query reads, and with n² / B for the summaries.
    Left out: heads that choose together, by the mean of their p̄, as a fast kernel needs; learned
    summaries in place of means; separate keys for each term.
    Source: Yuan et al. 2025, arXiv 2502.11089, sections 3.2 and 3.3.

    >>> x, v, gates = torch.zeros(4, 1), torch.tensor([[1.0], [3], [5], [7]]), torch.ones(4, 3)
    >>> causal_native_sparse_attention(x, x, v, gates * torch.tensor([1, 10, 100]), 2, 1, 1).T
    tensor([[110., 322., 552., 764.]])
    """
    n, d = query.shape[-2:]
    token = torch.arange(n, device=query.device)[:, None]  # (n, 1)

    mean_key, mean_value = (
        torch.stack([block.mean(-2) for block in x.split(block_size, -2)], dim=-2)
        for x in (key, value)
    )  # (..., blocks, d)
    block = torch.arange(mean_key.shape[-2], device=query.device)
    full = (block + 1) * block_size <= token + 1  # (n, blocks), up to the query's place
    scores = (query / d**0.5) @ mean_key.mT  # (..., n, blocks)
    weights = torch.softmax(scores.masked_fill(~full, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~full, 0.0)  # before the first full block: zeros
    summary = weights @ mean_value  # (..., n, d_v)

    own, ranks = token // block_size, weights.detach()
    for which, rank in ((block == 0, 2.0), (block == own - 1, 3.0), (block == own, 4.0)):
        ranks = ranks.masked_fill(which, rank)  # above all weights
    ranks = ranks.masked_fill(block > own, float("-inf"))
    best = ranks.topk(min(num_blocks, len(block)), dim=-1).indices  # (..., n, k)
    inside = torch.arange(block_size, device=query.device)
    place = (best[..., None] * block_size + inside).flatten(-2)  # (..., n, k B)
    selected = _attend_to_places(query, key, value, place, token)

    place = (token - torch.arange(window, device=query.device)).expand(*query.shape[:-1], -1)
    recent = _attend_to_places(query, key, value, place, token)  # (..., n, d_v)

    first, second, third = gates.split(1, dim=-1)  # (..., n, 1)
    return first * summary + second * selected + third * recent


def _attend_to_places(query, key, value, place, token):
    """Softmax attention of query i to the keys at ``place``, ``(..., n, k)``, from 0 to i."""
    n, d = query.shape[-2:]
    allowed = (place >= 0) & (place <= token)
    place = place.clamp(0, n - 1).flatten(-2)[..., None]  # (..., n k, 1)
    k, v = (torch.take_along_dim(x, place, -2).unflatten(-2, (n, -1)) for x in (key, value))
    scores = (k @ (query / d**0.5)[..., None])[..., 0]  # (..., n, k)
    weights = torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=-1)
    return (weights[..., None, :] @ v)[..., 0, :]  # (..., n, d_v)
