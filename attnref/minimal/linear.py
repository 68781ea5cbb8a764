"""Causal linear attention: all at once, and one step with a state."""

import torch
from torch.nn.functional import elu


def causal_linear_attention(query, key, value, block_size=64):
    """Weights are products of positive features, so that the past fits into a state.

        o_i = Σ_{j ≤ i} (φ(q_i)·φ(k_j)) v_j / Σ_{j ≤ i} φ(q_i)·φ(k_j),   φ(x) = elu(x) + 1

    ``query``, ``key``: ``(..., n, d)``; ``value``: ``(..., n, d_v)``. By blocks: within one, as a
    table; what came before, as a state of d rows. Time grows with n.
    Left out: half precision, in which the sums are too coarse; it is no softmax attention.
    Source: Katharopoulos et al. 2020, arXiv 2006.16236, equations 9 to 12.

    >>> x = torch.eye(2)
    >>> causal_linear_attention(x, x, torch.ones(2, 1))
    tensor([[1.],
            [1.]])
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


def linear_attention_step(query, key, value, state, normaliser):
    """One more token: ``query``, ``key``: ``(..., d)``; ``value``: ``(..., d_v)``; ``state``:
    ``(..., d, d_v)``; ``normaliser``: ``(..., d)``. Returns the output and both, brought forward.

    >>> linear_attention_step(*(torch.ones(2),) * 3, torch.zeros(2, 2), torch.zeros(2))[0]
    tensor([1., 1.])
    """
    query, key = elu(query) + 1, elu(key) + 1
    state = state + key[..., :, None] * value[..., None, :]
    normaliser = normaliser + key
    output = (query[..., None, :] @ state)[..., 0, :]
    return output / (query * normaliser).sum(-1, keepdim=True), state, normaliser
