"""Multi-head attention: several attentions side by side, each in its own projection.

Explained in foundations/multi-head; with every option: attnref.MultiHeadAttention.
"""

import torch


def multi_head_attention(x, in_weight, out_weight, num_heads):
    """Each head compares other features of the tokens; a last projection mixes what they found.

        O_a = softmax(Q_a K_aᵀ / √d) V_a,   Y = [O_1 … O_h] W_oᵀ

    ``x``: ``(..., n, e)``; ``in_weight``: ``(3 e, e)``, the rows for queries, keys and values one
    below the other, as in ``nn.MultiheadAttention``; ``out_weight``: ``(e, e)``; d = e / h.
    Left out: biases, masks, dropout, heads of another width.
    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2.

    >>> multi_head_attention(torch.ones(3, 4), torch.ones(12, 4), torch.eye(4), num_heads=2).shape
    torch.Size([3, 4])
    """
    heads = (x @ in_weight.mT).unflatten(-1, (3, num_heads, -1))  # (..., n, 3, h, d)
    query, key, value = heads.movedim(-4, -2).unbind(-4)  # each (..., h, n, d)
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., h, n, n)
    output = torch.softmax(scores, dim=-1) @ value  # (..., h, n, d)
    return output.movedim(-3, -2).flatten(-2) @ out_weight.mT  # (..., n, e)
