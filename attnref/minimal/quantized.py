"""Attention with queries and keys of eight bits.

Explained in variants/quantized; with every option: attnref.quantized_attention.
"""

import torch


def quantize(tokens):
    """Each token as integers from -127 to 127, and the step of which they are multiples.

        z = round(x / Δ),   Δ = max_l |x_l| / 127

    ``tokens``: ``(..., n, d)``. Returns int8, ``(..., n, d)``, and steps, ``(..., n, 1)``: what a
    cache keeps.

    >>> quantize(torch.tensor([[0.5, -1.0]]))[0]
    tensor([[  64, -127]], dtype=torch.int8)
    """
    step = tokens.detach().abs().amax(-1, keepdim=True) / 127  # (..., n, 1)
    step = step.masked_fill(step == 0, 1.0)  # a token of zeros
    return (tokens.detach() / step).round().to(torch.int8), step


def quantized_attention(query, key, value):
    """Softmax attention with queries and keys that were rounded to integers.

        o_i = Σ_j softmax_j(q̂_i · k̂_j / √d) v_j,   x̂ = Δ z,   k̂_j from k_j less the mean key

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``. The mean key
    changes each row of scores by a constant, which softmax does not see, but may hold one large
    channel that would make all steps coarse. Gradients pass the rounding unchanged.
    Left out: masks; the integer product, which only a kernel makes fast: here z Δ is multiplied.
    Steps of half precision are too coarse: convert to float32 before.
    Source: Zhang et al. 2024 (SageAttention), arXiv 2410.02367, sections 4.2 and 4.3.

    >>> key, value = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[10.0], [20.0], [30.0]])
    >>> quantized_attention(torch.ones(1, 1), key, value)
    tensor([[25.7521]])
    """
    rounded = []
    for tokens in (query, key - key.mean(-2, keepdim=True)):
        integers, step = quantize(tokens)
        rounded.append(tokens + (integers * step - tokens).detach())  # straight-through
    query, key = rounded
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., n, m)
    return torch.softmax(scores, dim=-1) @ value  # (..., n, d_v)
