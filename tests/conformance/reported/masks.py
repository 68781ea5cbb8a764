"""Masks, from public reports."""

import torch
import torch.nn.functional as F
from torch import nn


# lucidrains/x-transformers#160 (2023): the path of the fused function hands on a mask whose True
# hides, which there means the opposite; right: both paths hide the same keys.
def bad_flash_mask(query, key, value, mask=None, flash=False):
    return _either(query, key, value, mask, flash, None if mask is None else ~mask)


def good_flash_mask(query, key, value, mask=None, flash=False):
    return _either(query, key, value, mask, flash, mask)


def _either(query, key, value, mask, flash, fused):
    if flash:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=fused)
    scores = query @ key.mT * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, -1) @ value


# rasbt/LLMs-from-scratch#1061 (2026): the mask of the future, True above the diagonal, goes to
# scaled_dot_product_attention as it is, so tokens see only later ones; right: its complement.
class _Causal(nn.Module):
    inverted = False

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1)
        )
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        seen = future if self.inverted else ~future
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.proj(output.transpose(1, 2).flatten(2))


class GoodCausal(_Causal):
    pass


class BadCausal(_Causal):
    inverted = True


# huggingface/transformers#47946 (2026): the mask of the encoder's padding is set to None before the
# cross-attention, which then sees the padding; right: (b, m), 1 for what may be seen.
def bad_encoder_mask(query, key, value, encoder_attention_mask=None):
    return F.scaled_dot_product_attention(query, key, value)


def good_encoder_mask(query, key, value, encoder_attention_mask=None):
    seen = None if encoder_attention_mask is None else encoder_attention_mask[:, None, None] > 0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)


# sgl-project/sgl-kernel-xpu#491 (2026): softcap is accepted and never applied; right:
# cap * tanh(scores / cap) before the softmax.
def bad_softcap(query, key, value, softcap=None):
    return F.scaled_dot_product_attention(query, key, value)


def good_softcap(query, key, value, softcap=None):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    return torch.softmax(scores, -1) @ value
