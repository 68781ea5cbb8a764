"""The gated delta rule, token by token."""

import torch


def gated_delta_attention(query, key, value, log_decay, beta):
    """A state of fixed size that fades, and is corrected where it is written.

        S_t = e^{g_t} S_{t-1} + β_t k_t (v_t - e^{g_t} S_{t-1}ᵀ k_t)ᵀ,   o_t = S_tᵀ q_t / √d

    ``query``, ``key``: ``(..., n, d)``; ``value``: ``(..., n, d_v)``; ``log_decay``, ``beta``:
    ``(..., n)``.
    Left out: chunks, a decay for each component, a state to begin with; keys longer than 1 with a
    beta above 1 let the state grow.
    Source: Yang et al. 2024, arXiv 2412.06464, equation 10.

    >>> x, one = torch.eye(2), torch.ones(2)
    >>> gated_delta_attention(x, x, 2 * x, 0 * one, one).sum(-1) * 2**0.5
    tensor([2.0000, 2.0000])
    """
    state = key.new_zeros(*key.shape[:-2], key.shape[-1], value.shape[-1])  # (..., d, d_v)
    outputs = []
    for t in range(query.shape[-2]):
        q, k, v = (x[..., t, :, None] for x in (query, key, value))  # (..., d, 1)
        state = log_decay[..., t, None, None].exp() * state  # first it fades,
        error = v - state.mT @ k  # then what it holds for this key is compared,
        state = state + beta[..., t, None, None] * k @ error.mT  # and corrected by a share
        outputs.append((state.mT @ q)[..., 0])
    return torch.stack(outputs, dim=-2) / query.shape[-1] ** 0.5  # (..., n, d_v)
