"""Sharper is not better: retrieval of noisy values by a soft look-up."""

# --8<-- [start:example]
import math

import attnref
import torch
from attnref import softmax

n, repeats = 64, 1000
generator = torch.Generator().manual_seed(0)


def on_circle(angle):
    return torch.stack([angle.cos(), angle.sin()], dim=-1)


keys = torch.arange(n) * 2 * math.pi / n
asked = torch.rand(repeats, 1, generator=generator) * 2 * math.pi
truth = (3 * asked).sin()
# Each key stores the truth at its angle, with noise of deviation 1/2.
noise = 0.5 * torch.randn(repeats, n, generator=generator)
v = ((3 * keys).sin() + noise)[..., None]  # (repeats, n, 1)

print("factor c  keys  error")
for c in (0, 3, 10, 30, 100, 300, 1000, 10_000):
    p = attnref.attention_weights(
        on_circle(asked), on_circle(keys).expand(repeats, n, 2), scale=c
    )  # (repeats, 1, n)
    error = ((p @ v)[..., 0] - truth).square().mean()
    used = softmax.entropy(p).exp().mean()
    print(f"{c:8}  {used:4.1f}  {error:5.3f}")
# --8<-- [end:example]
