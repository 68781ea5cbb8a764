"""A listing that circulates: no denominator, and not causal."""

# --8<-- [start:example]
import torch
from attnref import linear_attention
from torch.nn.functional import elu


def listing(q, k, v):
    q, k = elu(q) + 1, elu(k) + 1
    return q @ (k.mT @ v)


d = 64
generator = torch.Generator().manual_seed(0)
print("values that are all 1")
for n in (16, 64, 256, 1024):
    q, k = torch.randn(2, n, d, generator=generator)
    one = torch.ones(n, 1)
    wrong, right = listing(q, k, one), linear_attention(q, k, one)
    print(
        f"n = {n:4}: listing {wrong.mean():5.0f}, attnref {right.mean():.4f}"
    )
q, k = torch.randn(2, 4096, d, generator=generator).half()
one = torch.ones(4096, 1).half()
wrong, right = listing(q, k, one), linear_attention(q, k, one)
print(f"float16, n = 4096: listing {wrong.mean()}, attnref {right.mean()}")

q, k, v = torch.randn(3, 64, d, generator=generator)
other = v.clone()
other[-1] += 1
moved = listing(q, k, other)[0] - listing(q, k, v)[0]
print(f"\nlast value + 1: first output of the listing moves by {moved[0]:.1f}")
causal = [linear_attention(q, k, x, is_causal=True)[0] for x in (v, other)]
print(
    "first output of the causal form is the same:", causal[0].equal(causal[1])
)
# --8<-- [end:example]
