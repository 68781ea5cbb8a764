"""Cross-attention: one sequence reads another.

Explained in foundations/queries-keys-values; with every option: attnref.MultiHeadAttention.
"""

import torch


def cross_attention(x, memory, query_weight, key_weight, value_weight):
    """Queries come from one sequence, keys and values from another, of any length.

        Q = X W_qᵀ,   K = M W_kᵀ,   V = M W_vᵀ,   O = softmax(Q Kᵀ / √d) V

    ``x``: ``(..., n, e)``; ``memory``: ``(..., m, e_m)``; ``query_weight``: ``(d, e)``;
    ``key_weight``: ``(d, e_m)``; ``value_weight``: ``(d_v, e_m)``, as ``nn.Linear`` keeps them.
    Left out: heads, biases, the projection behind, the mask of a padded memory.
    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.3.

    >>> eye = torch.eye(2)
    >>> cross_attention(torch.ones(3, 2), torch.ones(5, 2), eye, eye, eye).shape
    torch.Size([3, 2])
    """
    query, key, value = x @ query_weight.mT, memory @ key_weight.mT, memory @ value_weight.mT
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., n, m)
    return torch.softmax(scores, dim=-1) @ value  # (..., n, d_v)
