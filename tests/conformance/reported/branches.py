"""Branches that differ: evaluation and returned weights, from public reports."""

import torch
import torch.nn.functional as F
from torch import nn


# huggingface/pytorch-image-models#1978 (2023): the layer hands its dropout on in evaluation too, so
# two calls differ; right: no dropout in evaluation.
class _Dropping(nn.Module):
    always = False

    def __init__(self, width, heads, attn_drop=0.1):
        super().__init__()
        self.heads, self.attn_drop = heads, attn_drop
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1)
        )
        p = self.attn_drop if self.always or self.training else 0.0
        output = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
        return self.proj(output.transpose(1, 2).flatten(2))


class GoodDropping(_Dropping):
    pass


class BadDropping(_Dropping):
    always = True


# pytorch/pytorch#99282 (2023): is_causal is ignored if the weights are asked for; right: the same
# output with and without them.
def bad_weights(query, key, value, is_causal=False, need_weights=False):
    return _weighted(query, key, value, is_causal and not need_weights, need_weights)


def good_weights(query, key, value, is_causal=False, need_weights=False):
    return _weighted(query, key, value, is_causal, need_weights)


def _weighted(query, key, value, is_causal, need_weights):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    weights = torch.softmax(scores, -1)
    return (weights @ value, weights) if need_weights else weights @ value
