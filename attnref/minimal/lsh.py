"""Attention by hashing: tokens of similar direction are sorted next to each other.

Explained in variants/lsh; with every option: attnref.lsh_attention.
"""

import torch
from torch.nn.functional import pad


def lsh_attention(query, key, value, rotations, block_size):
    """In each round queries and keys are sorted by hash, and a block sees the keys around it.

        h(x) = arg max [x R; -x R],   o_i = Σ_{j in P_i} p_ij v_j
        P_i: the keys that are within one block of query i in some round

    ``query``, ``key``: ``(..., n, d)``; ``value``: ``(..., n, d_v)``; ``rotations``: R of each
    round, ``(rounds, d, buckets / 2)``, Gaussian. A pair that meets in several rounds counts once:
    each of its c scores is lowered by ln c. Time and memory grow with n times ``block_size``, the
    size C of a block.
    Left out: causality, masks; keys with large scores that never share a block are lost.
    Source: Kitaev et al. 2020, arXiv 2001.04451, section 2, with both neighbours of a block;
    hashing: Andoni et al. 2015, arXiv 1509.02897.

    >>> x = torch.tensor([[9.0, 0.0], [0.0, 9.0], [9.0, 0.0]])
    >>> lsh_attention(x, x, x, torch.eye(2)[None], block_size=1).round()
    tensor([[9., 0.],
            [0., 9.],
            [9., 0.]])
    """
    n, d = query.shape[-2:]
    size, blocks = block_size, -(-n // block_size)
    fill = blocks * size - n
    query_order, key_order = (_sort_by_hash(x, rotations) for x in (query, key))
    query_place, key_place = query_order.argsort(-1), key_order.argsort(-1)  # (..., rounds, n)

    # Each token takes its blocks along, those of all rounds, (..., n, rounds).
    q, q_block = (_take(x, query_order) for x in (query / d**0.5, query_place.mT // size))
    k, v, k_block = (_take(x, key_order) for x in (key, value, key_place.mT // size))
    q = pad(q, (0, 0, 0, fill)).unflatten(-2, (blocks, size))  # (..., rounds, blocks, C, d)
    q_block = pad(q_block, (0, 0, 0, fill), value=blocks - 1).unflatten(-2, (blocks, size))
    k_block = pad(k_block, (0, 0, size, size + fill), value=-2)  # filled in: never met
    k, v = (pad(x, (0, 0, size, size + fill)) for x in (k, v))
    k, v, k_block = (x.unfold(-2, 3 * size, size) for x in (k, v, k_block))
    # Now (..., rounds, blocks, d, 3 C): each block with the one before and the one after.

    near = (q_block[..., None] - k_block[..., None, :, :]).abs() <= 1  # (..., C, rounds, 3 C)
    meetings = near.sum(-2).to(q.dtype)  # (..., rounds, blocks, C, 3 C)
    scores = (q @ k - meetings.log()).masked_fill(meetings == 0, float("-inf"))
    outputs = torch.softmax(scores, dim=-1) @ v.mT  # (..., rounds, blocks, C, d_v)
    lse = scores.logsumexp(-1, keepdim=True)
    outputs, lse = (
        torch.take_along_dim(x.flatten(-3, -2), query_place[..., None], -2) for x in (outputs, lse)
    )  # (..., rounds, n, d_v), in the order of the text
    return (torch.softmax(lse, dim=-3) * outputs).sum(-3)  # (..., n, d_v)


def _sort_by_hash(tokens, rotations):
    """The tokens in the order of their hashes, ``(..., rounds, n)``; equal ones stay in theirs."""
    projected = tokens.detach()[..., None, :, :] @ rotations  # (..., rounds, n, buckets / 2)
    bucket = torch.cat([projected, -projected], dim=-1).argmax(-1)  # (..., rounds, n)
    return bucket.argsort(dim=-1, stable=True)


def _take(tokens, order):
    """Tokens ``(..., n, d)`` in the order of each round, ``(..., rounds, n, d)``."""
    return torch.take_along_dim(tokens[..., None, :, :], order[..., None], dim=-2)
