"""Attention to selected keys or blocks, from public reports; always causal."""

import torch
import torch.nn.functional as F

BLOCK = 4


def _causal(query, key):
    return torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()


# tenstorrent/tt-metal#48700 (2026): a query's own block is seen whole, with the tokens after it;
# right: of the blocks that are selected, its own only up to itself.
def bad_own_block(query, key, value, blocks=2):
    return _blocks(query, key, value, blocks, whole=True)


def good_own_block(query, key, value, blocks=2):
    return _blocks(query, key, value, blocks, whole=False)


def _blocks(query, key, value, blocks, whole):
    """Each query sees its own block, and those before it with the largest mean scores."""
    n, m = query.shape[-2], key.shape[-2]
    own, count = torch.arange(n)[:, None] // BLOCK, -(-m // BLOCK)
    sizes = torch.full((count,), BLOCK).clamp(max=m - BLOCK * torch.arange(count))
    sums = F.pad(key, (0, 0, 0, -m % BLOCK)).unflatten(-2, (count, BLOCK)).sum(-2)
    scores = query @ (sums / sizes[:, None]).mT  # (b, h, n, count)
    scores = scores.masked_fill(torch.arange(count) > own, -torch.inf)
    scores = scores.masked_fill(torch.arange(count) == own, torch.inf)
    chosen = torch.zeros_like(scores, dtype=torch.bool)
    chosen.scatter_(-1, scores.topk(min(blocks, count), -1).indices, True)
    chosen = chosen & (torch.arange(count) <= own)
    seen = chosen.repeat_interleave(BLOCK, -1)[..., :m]
    seen = seen if whole else seen & _causal(query, key)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)


# HKUSTDial/flash-sparse-attention#146 (2025): the keys with the largest scores are chosen among all
# before the causal mask, so early queries keep few or none; right: among those that each may see.
def bad_chosen(query, key, value, kept=4):
    scores = key.square().sum(-1)[..., None, :].expand(*query.shape[:-1], -1)
    return _chosen(query, key, value, scores, kept)


def good_chosen(query, key, value, kept=4):
    scores = key.square().sum(-1)[..., None, :].expand(*query.shape[:-1], -1)
    return _chosen(query, key, value, scores.masked_fill(~_causal(query, key), -torch.inf), kept)


def _chosen(query, key, value, scores, kept):
    seen = torch.zeros_like(scores, dtype=torch.bool)
    seen.scatter_(-1, scores.topk(min(kept, scores.shape[-1]), -1).indices, True)
    seen = seen & _causal(query, key)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)


# osaurus-ai/vmlx-swift#429 (2026): short sequences need no selection, and without one no mask is
# made at all, so they see the future; right: the causal mask in both cases.
def bad_short(query, key, value, index_topk=16):
    if key.shape[-2] <= index_topk:
        return F.scaled_dot_product_attention(query, key, value)
    return good_chosen(query, key, value, index_topk)


def good_short(query, key, value, index_topk=16):
    return good_chosen(query, key, value, index_topk)
