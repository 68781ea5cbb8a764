"""Flash-Decoding: the cache is read in pieces, all at the same time.

Explained in variants/kv-cache; with every option: attnref.kv_cache_attention.
"""

import torch


def split_kv_attention(query, key, value, splits):
    """Each piece of the keys gives an average; these are averaged by the share of each piece.

        ℓ_s = ln Σ_{j in s} e^{s_j},   o = Σ_s e^{ℓ_s} o_s / Σ_s e^{ℓ_s}

    ``query``: ``(..., t, d)``, few; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``. With
    one query, there is too little work for a GPU unless pieces share it out.
    Left out: causality among several new tokens; no key at all, which is an error; half precision,
    which rounds what each piece gives. The pieces go one after another here.
    Source: Dao et al. 2023, Flash-Decoding, https://pytorch.org/blog/flash-decoding/.

    >>> x = torch.eye(3)
    >>> split_kv_attention(x, x, x, splits=2).sum(-1)
    tensor([1., 1., 1.])
    """
    outputs, lses = [], []
    for k, v in zip(key.chunk(splits, -2), value.chunk(splits, -2), strict=True):
        scores = (query / query.shape[-1] ** 0.5) @ k.mT  # (..., t, m_s)
        lses.append(scores.logsumexp(-1, keepdim=True))  # (..., t, 1)
        outputs.append(torch.softmax(scores, dim=-1) @ v)
    shares = torch.softmax(torch.stack(lses), dim=0)  # (s, ..., t, 1)
    return (shares * torch.stack(outputs)).sum(0)  # (..., t, d_v)
