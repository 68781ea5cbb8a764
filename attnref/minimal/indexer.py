"""Attention to the tokens that a small indexer ranks first.

Explained in variants/selected; with every option: attnref.indexer_attention.
"""

import torch


def causal_indexer_attention(query, key, value, index_query, index_key, index_weights, num_keys):
    """A small attention without softmax ranks the past, and all heads read the best few tokens.

        I_ij = Σ_h w_ih ReLU(q^I_ih · k^I_j),   o_i = Σ_{j in T_i} p_ij v_j
        T_i: the ``num_keys`` tokens j ≤ i of largest I_ij

    ``query``, ``key``: ``(..., h, n, d)``; ``value``: ``(..., h, n, d_v)``; ``index_query``:
    ``(..., h_I, n, d_I)``; ``index_key``: ``(..., n, d_I)``; ``index_weights``: ``(..., h_I, n)``.
    The attention grows with n times ``num_keys``.
    Left out: ranking piece by piece; here the indexer holds n² numbers for each index head. It gets
    no gradient from the output, and needs a loss on I to learn.
    Source: DeepSeek-AI 2025, arXiv 2512.02556, section 2.1.

    >>> x, one = torch.eye(3)[None], torch.ones(1, 3)
    >>> causal_indexer_attention(x, x, x, x, x[0], one, num_keys=1)[0, 2]
    tensor([0., 0., 1.])
    """
    n, d = query.shape[-2:]
    products = torch.relu(index_query @ index_key[..., None, :, :].mT)  # (..., h_I, n, n)
    ranks = (index_weights[..., None] * products).sum(-3).detach()  # (..., n, n)
    token = torch.arange(n, device=query.device)
    ranks = ranks.masked_fill(token > token[:, None], float("-inf"))
    best = ranks.topk(min(num_keys, n), dim=-1)  # (..., n, k), early tokens among later ones
    allowed = (best.values > float("-inf"))[..., None, :, :]  # (..., 1, n, k)
    place = best.indices.flatten(-2)[..., None, :, None]  # (..., 1, n k, 1), one for all heads
    k, v = (torch.take_along_dim(x, place, -2).unflatten(-2, (n, -1)) for x in (key, value))
    scores = (k @ (query / d**0.5)[..., None])[..., 0]  # (..., h, n, k)
    weights = torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=-1)
    return (weights[..., None, :] @ v)[..., 0, :]  # (..., h, n, d_v)
