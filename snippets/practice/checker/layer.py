"""A layer of causal self-attention in the manner of small language models."""

# --8<-- [start:example]
import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, width, heads, block_size):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * width)
        self.to_out = nn.Linear(width, width)
        past = torch.ones(block_size, block_size, dtype=torch.bool).tril()
        self.register_buffer("past", past)

    def forward(self, x):
        batch, n, width = x.shape
        qkv = self.to_qkv(x).view(batch, n, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # (batch, heads, n, d)
        scores = query @ key.mT / width**0.5
        scores = scores.masked_fill(~self.past[:n, :n], -torch.inf)
        output = torch.softmax(scores, dim=-1) @ value
        return self.to_out(output.transpose(1, 2).flatten(2))


if __name__ == "__main__":
    from pathlib import Path

    from shell import typed

    asked = "--with block_size=256 --only shape,causality,scale"
    typed(
        f"attnref check layer.py:SelfAttention {asked}", Path(__file__).parent
    )
# --8<-- [end:example]
