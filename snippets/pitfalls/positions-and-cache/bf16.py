"""Positions in bfloat16, and a rotation that gives back another type."""

# --8<-- [start:example]
import textwrap

import torch
from attnref.positions import rotary
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, 4096, 64, generator=generator).bfloat16()
omegas = 10_000 ** (-torch.arange(0, 64, 2).double() / 64)


def turn(x, dtype):
    """Turns each pair of components of x by angles that are made in dtype."""
    position = torch.arange(len(x), dtype=dtype)
    angles = position[:, None] * omegas.to(dtype)  # (n, d / 2)
    cos, sin = angles.cos(), angles.sin()
    first, second = x[:, 0::2], x[:, 1::2]
    turned = (first * cos - second * sin, first * sin + second * cos)
    return torch.stack(turned, dim=-1).flatten(-2)


right = rotary(query.double())
for dtype in (torch.bfloat16, torch.float32):
    turned = turn(query, dtype)
    error = (turned.double() - right).abs().amax(-1)  # (n,)
    print(f"angles in {dtype}: largest error {error.max():.1f}")

try:
    F.scaled_dot_product_attention(turned, turn(key, dtype), value)
except RuntimeError as error:
    print(textwrap.fill(str(error), 72))

fixed = turned.to(query.dtype)  # rounded once, at the end
error = (fixed.double() - right).abs().max()
print(f"fixed: {fixed.dtype}, largest error {error:.1f}")
F.scaled_dot_product_attention(fixed, turn(key, dtype).to(key.dtype), value)
# --8<-- [end:example]
