"""Linear attention: a sum for an average, an average of the future, fixed."""

# --8<-- [start:example]
import torch
from torch.nn.functional import elu


def wrong(q, k, v):
    q, k = elu(q) + 1, elu(k) + 1
    return q @ (k.mT @ v)


def divided(q, k, v):
    q, k = elu(q) + 1, elu(k) + 1
    return q @ (k.mT @ v) / (q @ k.sum(-2)[..., None])


def causal(q, k, v):  # for short texts: it holds a matrix for each word
    q, k = elu(q) + 1, elu(k) + 1
    sums = (k[..., None] * v[..., None, :]).cumsum(-3)  # (n, d, d_v)
    averaged = (q[..., None, :] @ sums)[..., 0, :]
    return averaged / (q * k.cumsum(-2)).sum(-1, keepdim=True)


generator = torch.Generator().manual_seed(0)
for attend in (wrong, divided, causal):
    print(attend.__name__)
    for n in (16, 256):
        q, k = torch.randn(2, n, 8, generator=generator)
        ones = attend(q, k, torch.ones(n, 1))
        print(f"  n = {n:3}: ones come out as {ones.mean():.2f}")
    v = torch.randn(n, 1, generator=generator)
    other = torch.cat([v[:-1], v[-1:] + 1.0])  # another last value
    moved = not torch.equal(attend(q, k, other)[:-1], attend(q, k, v)[:-1])
    print("  the last word moves those before:", moved)
# --8<-- [end:example]
