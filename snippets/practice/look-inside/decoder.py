"""A decoder with a cache, and one wrong argument."""

# --8<-- [start:example]
import attnref
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class SelfAttention(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )

    def forward(self, x, cache):
        heads = (self.heads, x.shape[-1] // self.heads)
        q, k, v = (
            y.unflatten(-1, heads).transpose(1, 2)
            for y in self.qkv(x).chunk(3, dim=-1)
        )
        if cache:
            k, v = (
                torch.cat(pair, dim=2)
                for pair in zip(cache, (k, v), strict=True)
            )
        cache[:] = k, v
        o = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(o.transpose(1, 2).flatten(2))


torch.manual_seed(0)
layers = nn.ModuleDict(
    {"first": SelfAttention(), "second": SelfAttention()}
).eval()
caches = {name: [] for name in layers}

with torch.no_grad(), attnref.watch(layers) as seen:
    for tokens in (9, 1, 1, 1):  # a prompt, then token by token
        x = torch.randn(1, tokens, 64)
        for name, layer in layers.items():
            x = x + layer(x, caches[name])

print(seen)
# --8<-- [end:example]
