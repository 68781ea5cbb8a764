"""Hierarchical attention: near keys one by one, far keys by means.

Explained in variants/hierarchical; with every option: attnref.hierarchical_attention.
"""

import torch
from torch.nn.functional import pad


def hierarchical_attention(query, key, value, block_size, num_means):
    """The further away the keys, the longer the runs of them that one mean stands for.

        Σ_{j in run} e^{q·k_j / √d} v_j   becomes   w e^{q·k̄ / √d} v̄,   w: the keys in the run

    ``query``, ``key``: ``(..., n, d)``; ``value``: ``(..., n, d_v)``. Blocks of ``block_size``
    tokens see themselves and their neighbours in full; of pairs of blocks, pairs of pairs and so
    on, each in ``num_means`` runs, they see three per level. Time grows with n log n.
    Left out: causality, masks; exact up to 2 blocks, beyond that only if keys change slowly.
    Source: near and far as in Greengard and Rokhlin 1987; for attention, with another far field,
    Zhu and Soricut 2021, arXiv 2107.11906.

    >>> x, v = torch.zeros(5, 1), torch.arange(5.0)[:, None]
    >>> hierarchical_attention(x, x, v, block_size=1, num_means=1)[0]
    tensor([2.])
    """
    n, d = query.shape[-2:]
    blocks = 2 ** (-(-n // block_size) - 1).bit_length()  # a power of two, the last ones empty
    fill = (0, 0, 0, blocks * block_size - n)
    count = pad(key.new_ones(n, 1), fill)  # (N, 1), N = blocks * B
    query, key, value = (pad(x, fill) for x in (query / d**0.5, key, value))  # (..., N, d)
    query = query.unflatten(-2, (blocks, block_size))  # (..., blocks, B, d)
    node, number = torch.arange(blocks, device=query.device)[:, None], blocks  # (blocks, 1)
    index = torch.cat([node - 1, node, node + 1], dim=-1)  # near: token by token
    scores, values = [], []
    for level in range(max(1, blocks.bit_length() - 1)):
        if level > 0:  # far: runs of the parent's neighbours' children that are no neighbours
            length = block_size // num_means if level == 1 else 2
            key, value, count = (x.unflatten(-2, (-1, length)).sum(-2) for x in (key, value, count))
            node, number = (node, number) if level == 1 else (node // 2, number // 2)
            index = torch.cat([node - 2, node + 2, node + 3 - 6 * (node % 2)], dim=-1)
        present = (index >= 0) & (index < number)  # (blocks, 3)
        k, v, c = (
            x.unflatten(-2, (number, -1))[..., index.clamp(0, number - 1), :, :]
            for x in (key, value, count)
        )  # (..., blocks, 3, runs, d), sums over runs and the number of their keys
        k, v = k / c.clamp(min=1), v / c.clamp(min=1)
        k, v, c = (x.flatten(-3, -2) for x in (k, v, c * present[..., None, None]))
        scores.append(query @ k.mT + c.log().mT)  # (..., blocks, B, 3 runs)
        values.append(v)
    weights = torch.softmax(torch.cat(scores, dim=-1), dim=-1)
    return (weights @ torch.cat(values, dim=-2)).flatten(-3, -2)[..., :n, :]  # (..., n, d_v)
