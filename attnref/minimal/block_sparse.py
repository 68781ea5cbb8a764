"""Attention in which whole blocks of keys are left out.

Explained in variants/block-sparse; with every option: attnref.block_sparse_attention.
"""

import torch


def block_sparse_attention(query, key, value, layout, block_size):
    """Each block of queries sees the blocks of keys that its row of the layout names.

        query i sees key j   if   layout[⌊i / B⌋, ⌊j / B⌋]

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``;
    ``layout``: booleans, ``(⌈n / B⌉, ⌈m / B⌉)``. Only the blocks it allows are computed.
    Left out: masks within blocks, a layout for each head; the loop is slow on a GPU.
    Source: Child et al. 2019, arXiv 1904.10509.

    >>> x = torch.eye(2)
    >>> block_sparse_attention(x, x, x, torch.eye(2).bool(), block_size=1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    places = torch.arange(key.shape[-2], device=key.device).split(block_size)
    outputs = []
    for q, row in zip(query.split(block_size, -2), layout.tolist(), strict=True):
        seen = [block for block, is_seen in zip(places, row, strict=True) if is_seen]
        if not seen:  # no key: zeros
            outputs.append(torch.zeros_like(q @ key[..., :1, :].mT * value[..., :1, :]))
            continue
        k, v = (x[..., torch.cat(seen), :] for x in (key, value))
        outputs.append(torch.softmax((q / q.shape[-1] ** 0.5) @ k.mT, dim=-1) @ v)
    return torch.cat(outputs, dim=-2)  # (..., n, d_v)
