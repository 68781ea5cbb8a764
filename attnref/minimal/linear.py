"""Linear attention: all pairs in one go, causal by blocks, and one step with a state.

Explained in variants/linear; with every option: attnref.linear_attention.
"""

import torch
from torch.nn.functional import elu


def linear_attention(query, key, value):
    """Weights are products of positive features, so that the keys are summed up once for all.

        o_i = φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ / φ(q_i)ᵀ Σ_j φ(k_j),   φ(x) = elu(x) + 1

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``. Time grows
    with n + m, not with n m.
    Left out: half precision, in which the sums are too coarse; it is no softmax attention.
    Source: Katharopoulos et al. 2020, arXiv 2006.16236, equations 4 to 12.

    >>> linear_attention(torch.eye(2), torch.eye(2), torch.ones(2, 1)).flatten()
    tensor([1., 1.])
    """
    query, key = elu(query) + 1, elu(key) + 1
    return query @ (key.mT @ value) / (query @ key.sum(-2)[..., None])  # (..., n, d_v)


def causal_linear_attention(query, key, value, block_size=64):
    """Each token sees those up to itself: within its block as a table, before it as a state.

    >>> causal_linear_attention(torch.eye(2), torch.eye(2), torch.ones(2, 1)).flatten()
    tensor([1., 1.])
    """
    query, key = elu(query) + 1, elu(key) + 1
    value = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)  # the last: the divisor
    state = key.new_zeros(*key.shape[:-2], key.shape[-1], value.shape[-1])  # (..., d, d_v + 1)
    outputs = []
    for q, k, v in zip(*(x.split(block_size, -2) for x in (query, key, value)), strict=True):
        outputs.append((q @ k.mT).tril() @ v + q @ state)
        state = state + k.mT @ v
    output = torch.cat(outputs, dim=-2)
    return output[..., :-1] / output[..., -1:]  # (..., n, d_v)


def linear_attention_step(query, key, value, key_value, normaliser):
    """One more token: ``query``, ``key``: ``(..., d)``; ``value``: ``(..., d_v)``; ``key_value``:
    ``(..., d, d_v)``; ``normaliser``: ``(..., d)``. Returns the output and both, brought forward.

    >>> linear_attention_step(*(torch.ones(2),) * 3, torch.zeros(2, 2), torch.zeros(2))[0]
    tensor([1., 1.])
    """
    query, key = elu(query) + 1, elu(key) + 1
    key_value = key_value + key[..., :, None] * value[..., None, :]  # (..., d, d_v)
    normaliser = normaliser + key  # (..., d)
    above = (query[..., None, :] @ key_value)[..., 0, :]  # (..., d_v)
    below = (query * normaliser).sum(-1, keepdim=True)  # (..., 1)
    return above / below, key_value, normaliser
