"""Attention whose two products take floats of eight bits.

Explained in variants/eight-bit-floats; with every option: attnref.quantized_attention.
"""

import torch
from torch.nn.functional import pad


def float8_attention(query, key, value, block_size):
    """Queries, keys, values and weights are rounded to e4m3, each with its own kind of step.

        O = P̂ V̂,   P = softmax(Q̂ K̂ᵀ / √d),   x̂ = Δ e4m3(x / Δ),   Δ = max |x| / 448

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``. At most
    ``block_size`` queries or keys share a step; so do a channel of values and a row of weights.
    A number errs by a seventeenth of itself at most, or half the smallest step near zero.
    Gradients pass the rounding unchanged.
    Left out: masks; the fast products, which need a kernel: here the rounded numbers are
    multiplied in the dtype of ``query``, which should be float32.
    Source: a step per block: Shah et al. 2024 (FlashAttention-3), arXiv 2407.08608, section 3.3;
    per channel of values: Zhang et al. 2024 (SageAttention2), arXiv 2411.10958; format:
    Micikevicius et al. 2022, arXiv 2209.05433.

    >>> key, value = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[10.0], [20.0], [30.0]])
    >>> float8_attention(torch.ones(1, 1), key, value, block_size=3)
    tensor([[25.3984]])
    """
    query, key = round_to_float8(query, block_size), round_to_float8(key, block_size)
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., n, m)
    weights = torch.softmax(scores, dim=-1)
    value = round_to_float8(value.mT).mT  # a step per channel, along the sum
    return round_to_float8(weights) @ value  # (..., n, d_v)


def round_to_float8(tokens, block_size=1):
    """The nearest e4m3 multiples of a step, ``(..., n, d)``; a block of tokens shares a step.

    >>> round_to_float8(torch.tensor([[0.3, -6.0]]))
    tensor([[ 0.2946, -6.0000]])
    """
    n = tokens.shape[-2]
    blocks = -(-n // block_size)
    size = -(-n // blocks)  # blocks of nearly the same size
    largest = pad(tokens.detach().abs().amax(-1), (0, blocks * size - n))
    largest = largest.unflatten(-1, (blocks, size)).amax(-1)  # (..., blocks)
    step = largest.masked_fill(largest == 0, 1.0) / torch.finfo(torch.float8_e4m3fn).max
    step = step.repeat_interleave(size, -1)[..., :n, None]  # (..., n, 1)
    rounded = (tokens.detach() / step).to(torch.float8_e4m3fn).to(tokens.dtype) * step
    return tokens + (rounded - tokens).detach()  # straight-through
