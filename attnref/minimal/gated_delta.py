"""The gated delta rule: token by token, and by chunks.

Explained in variants/gated-delta; with every option: attnref.gated_delta_attention.
"""

import torch


def gated_delta_attention(query, key, value, log_decay, beta):
    """A state of fixed size that fades, and is corrected where it is written.

        S_t = e^{g_t} S_{t-1} + β_t k_t (v_t - e^{g_t} S_{t-1}ᵀ k_t)ᵀ,   o_t = S_tᵀ q_t / √d

    ``query``, ``key``: ``(..., n, d)``; ``value``: ``(..., n, d_v)``; ``log_decay``, ``beta``:
    ``(..., n)``.
    Left out: a decay for each component, a state to begin with and the one at the end, half
    precision: convert first. Where β |k|² reaches 2, the state can grow without bound.
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


def chunked_gated_delta_attention(query, key, value, log_decay, beta, block_size=64):
    """The same by products of matrices: the corrections of a chunk solve a triangular system.

        u_t = β_t (v_t - e^{G_t} Sᵀ k_t - Σ_{j<t} e^{G_t - G_j} (k_t · k_j) u_j),   G = Σ g

    with S the state before the chunk, and G summed up from its first token.

    >>> x, one = torch.eye(2), torch.ones(2)
    >>> chunked_gated_delta_attention(x, x, 2 * x, 0 * one, one).sum(-1) * 2**0.5
    tensor([2.0000, 2.0000])
    """
    state = key.new_zeros(*key.shape[:-2], key.shape[-1], value.shape[-1])  # (..., d, d_v)
    outputs, tensors = [], (query, key, value, log_decay[..., None], beta[..., None])
    for q, k, v, g, b in zip(*(x.split(block_size, -2) for x in tensors), strict=True):
        total = g.cumsum(-2)  # (..., c, 1)
        fade = (total - total.mT).tril().exp().tril()  # (..., c, c), from token j to token t
        system = (b * fade * (k @ k.mT)).tril(-1)  # its diagonal of ones is understood
        wanted = b * (v - total.exp() * k @ state)
        u = torch.linalg.solve_triangular(system, wanted, upper=False, unitriangular=True)
        outputs.append(total.exp() * q @ state + fade * (q @ k.mT) @ u)
        state = total[..., -1:, :].exp() * state + (fade[..., -1:, :].mT * k).mT @ u
    return torch.cat(outputs, dim=-2) / query.shape[-1] ** 0.5  # (..., n, d_v)
