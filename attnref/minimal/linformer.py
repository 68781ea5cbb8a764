"""Linformer: keys and values are summed up before they are attended to.

Explained in variants/linformer; with every option: attnref.linformer_attention.
"""

import torch


def linformer_attention(query, key, value, key_projection, value_projection):
    """Softmax attention over r mixtures of the m keys.

        O = softmax(Q (E K)ᵀ / √d) F V

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``;
    ``key_projection``, ``value_projection``: E and F, ``(r, m)``, learned for one length m. Time
    and memory grow with n r.
    Left out: masks; nothing can make it causal, since every mixture has later keys in it.
    Source: Wang et al. 2020, arXiv 2006.04768, equation 7.

    >>> x = torch.ones(4, 2)
    >>> linformer_attention(x, x, x, torch.full((1, 4), 0.25), torch.full((1, 4), 0.25))[0]
    tensor([1., 1.])
    """
    scores = (query / query.shape[-1] ** 0.5) @ (key_projection @ key).mT  # (..., n, r)
    return torch.softmax(scores, dim=-1) @ (value_projection @ value)  # (..., n, d_v)
