"""Latent attention: the cache holds one short vector a token, and a key for its position.

Explained in variants/latent; with every option: attnref.latent_attention.
"""

import torch


def latent_attention(query, latent, key_up, value_up, query_rotary, key_rotary):
    """Keys and values of all heads are made of the latents, as in training.

        k_j = U c_j,   v_j = W c_j,   s_ij = (q_i · k_j + ϱ_i · r_j) / √(d + d_r)

    ``query``: ``(..., h, n, d)``; ``latent``: ``(..., m, d_c)``, of all heads; ``key_up``: U,
    ``(h, d, d_c)``; ``value_up``: W, ``(h, d_v, d_c)``; ``query_rotary``: ``(..., h, n, d_r)`` and
    ``key_rotary``: ``(..., m, d_r)``, turned already.
    Left out: masks, the causal one of training too; the projections that make latents, and a
    scale that a model has stretched.
    Source: DeepSeek-AI 2024, arXiv 2405.04434, section 2.1.

    >>> c, w, r = torch.ones(3, 2), torch.eye(2)[None], torch.zeros(3, 4)
    >>> latent_attention(torch.ones(1, 1, 2), c, w, w, torch.zeros(1, 1, 4), r)
    tensor([[[1., 1.]]])
    """
    latent, key_rotary = latent[..., None, :, :], key_rotary[..., None, :, :]  # (..., 1, m, d_c)
    key, value = latent @ key_up.mT, latent @ value_up.mT  # (..., h, m, d), (..., h, m, d_v)
    scores = query @ key.mT + query_rotary @ key_rotary.mT  # (..., h, n, m)
    width = query.shape[-1] + query_rotary.shape[-1]
    return torch.softmax(scores / width**0.5, dim=-1) @ value  # (..., h, n, d_v)


def latent_attention_step(query, latent, key_up, value_up, query_rotary, key_rotary):
    """The same for one new token, in another order: no key and no value is made.

        q · (U c) = (Uᵀ q) · c,   Σ_j p_j W c_j = W Σ_j p_j c_j

    All heads share the latents, which a fused kernel reads once.

    >>> c, w, r = torch.ones(3, 2), torch.eye(2)[None], torch.zeros(3, 4)
    >>> latent_attention_step(torch.ones(1, 1, 2), c, w, w, torch.zeros(1, 1, 4), r)
    tensor([[[1., 1.]]])
    """
    latent, key_rotary = latent[..., None, :, :], key_rotary[..., None, :, :]
    scores = query @ key_up @ latent.mT + query_rotary @ key_rotary.mT  # (..., h, 1, m)
    width = query.shape[-1] + query_rotary.shape[-1]
    return torch.softmax(scores / width**0.5, dim=-1) @ latent @ value_up.mT  # (..., h, 1, d_v)
