"""Latent attention: the cache holds one short vector a token."""

import torch


def latent_attention_step(query, latent, key_weight, value_weight, scale):
    """One step of decoding without making keys and values: their weights go over to the query.

        q · (W_k c) = (W_kᵀ q) · c,   Σ p_j W_v c_j = W_v Σ p_j c_j

    ``query``: ``(..., h, t, d)``; ``latent``: ``(..., m, r)``, the cache, one for all heads;
    ``key_weight``: ``(h, d, r)``; ``value_weight``: ``(h, d_v, r)``; ``scale``: of the model, with
    its rotary part counted in.
    Left out: the rotary part of each key, masks; for long prompts it is cheaper to make the keys.
    Source: DeepSeek-AI 2024, arXiv 2405.04434, section 2.1.

    >>> c, w = torch.ones(3, 2), torch.eye(2)[None]
    >>> latent_attention_step(torch.ones(1, 1, 2), c, w, w, scale=1.0)
    tensor([[[1., 1.]]])
    """
    absorbed = query @ key_weight  # (..., h, t, r)
    weights = torch.softmax(absorbed @ latent[..., None, :, :].mT * scale, dim=-1)
    return weights @ latent[..., None, :, :] @ value_weight.mT  # (..., h, t, d_v)
