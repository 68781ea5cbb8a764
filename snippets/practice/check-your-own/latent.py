"""A latent layer that scales absorbed queries by their new width."""

# --8<-- [start:example]
import torch
from torch import nn


class LatentAttention(nn.Module):
    def __init__(self, width, heads, rank=32):
        super().__init__()
        self.heads, self.rank = heads, rank
        self.q_proj = nn.Linear(width, width)
        self.kv_down = nn.Linear(width, rank, bias=False)
        self.k_up = nn.Linear(rank, width, bias=False)
        self.v_up = nn.Linear(rank, width, bias=False)
        self.o_proj = nn.Linear(width, width)

    def forward(self, x):
        n, latent = x.shape[1], self.kv_down(x)[:, None]  # (b, 1, n, rank)
        query = self.q_proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        up = self.k_up.weight.unflatten(0, (self.heads, -1))  # (h, d, rank)
        absorbed = query @ up  # (b, h, n, rank)
        scores = absorbed @ latent.mT / absorbed.shape[-1] ** 0.5
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
        values = self.v_up(latent).unflatten(-1, (self.heads, -1))
        output = weights @ values[:, 0].transpose(1, 2)
        return self.o_proj(output.transpose(1, 2).flatten(2))


# --8<-- [end:example]

if __name__ == "__main__":
    from pathlib import Path

    from shell import typed

    typed(
        "attnref check latent.py:LatentAttention",
        Path(__file__).parent,
        head=8,
    )
