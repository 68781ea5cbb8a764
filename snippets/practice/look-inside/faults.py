"""A model with three faults, one in each block."""

# --8<-- [start:example]
import attnref
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


def first(q, k, v, allowed):
    return scaled_dot_product_attention(q, k, v, allowed, dropout_p=0.1)


def second(q, k, v, allowed):
    return scaled_dot_product_attention(q, k, v, ~allowed)


def third(q, k, v, allowed):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.masked_fill(~allowed, -torch.inf).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, attend, width=64, heads=4):
        super().__init__()
        self.attend, self.heads = attend, heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, allowed):
        heads = (self.heads, x.shape[-1] // self.heads)
        q, k, v = (
            y.unflatten(-1, heads).transpose(1, 2)
            for y in self.qkv(x).chunk(3, dim=-1)
        )
        o = self.attend(q, k, v, allowed).transpose(1, 2).flatten(2)
        return x + self.out(o)


class Model(nn.Module):
    def __init__(self, *attends):
        super().__init__()
        self.embedding = nn.Embedding(100, 64)
        self.blocks = nn.ModuleList(map(Block, attends))

    def forward(self, ids, real):
        n = ids.shape[1]
        allowed = (
            torch.ones(n, n, dtype=torch.bool).tril() & real[:, None, None]
        )
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, allowed)
        return x


torch.manual_seed(0)
model = Model(first, second, third).eval()
ids, real = torch.randint(100, (2, 12)), torch.ones(2, 12, dtype=torch.bool)
real[0, :4] = False  # the first text is four tokens shorter

with torch.no_grad(), attnref.watch(model) as seen:
    model(ids, real)

print(seen)
# --8<-- [end:example]
