"""Gated attention: each token decides how much each head may say.

Explained in variants/gated; with every option: attnref.MultiHeadAttention.
"""

import torch


def gated_attention(query, key, value, tokens, gate_weight):
    """What a head found is multiplied by numbers from 0 to 1 that the token itself sets.

        O = σ(X W_gate) ⊙ softmax(Q Kᵀ / √d) V

    ``query``: ``(..., h, n, d)``; ``key``: ``(..., h, m, d)``; ``value``: ``(..., h, m, d_v)``;
    ``tokens``: ``(..., n, D)``, the input X of the layer, from which the queries come too;
    ``gate_weight``: ``(h, D, 1)``, one gate per head, or ``(h, D, d_v)``, one per component.
    Left out: masks, a bias of the gates, the projections around it.
    Source: Qiu et al. 2025, arXiv 2505.06708, section 2.2.

    >>> x, shut = torch.eye(2)[None], torch.full((1, 2, 1), -100.0)
    >>> gated_attention(x, x, x, x[0], shut).round()
    tensor([[[0., 0.],
             [0., 0.]]])
    """
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., h, n, m)
    found = torch.softmax(scores, dim=-1) @ value  # (..., h, n, d_v)
    gates = torch.sigmoid(tokens[..., None, :, :] @ gate_weight)  # (..., h, n, 1 or d_v)
    return gates * found
