"""Performer: its error by number of features and size of tokens."""

# --8<-- [start:example]
import attnref
import torch
from attnref import random_projection
from attnref.minimal.performer import performer_attention

n, d = 512, 64
generator = torch.Generator().manual_seed(0)


def waves():
    place = torch.arange(n)[:, None] / n
    phase, speed = torch.rand(2, d, generator=generator)
    turns = (1 + 2 * speed) * place + phase
    return 2 * torch.sin(2 * torch.pi * turns)  # (n, d)


def noise():
    return torch.randn(n, d, generator=generator)


def error(found, exact):
    return float((found - exact).norm() / exact.norm())


counts = (64, 256, 1024, 4096)
print("tokens  size  mean  " + "  ".join(f"r = {r:<4}" for r in counts))
for name, draw in (("smooth", waves), ("random", noise)):
    tokens = draw(), draw(), draw()
    for size in (1.0, 0.5, 0.25):
        q, k, v = (size * x for x in tokens)
        exact = attnref.scaled_dot_product_attention(q, k, v)
        errors = []
        for r in counts:
            w = random_projection(r, d, generator=generator)
            found = performer_attention(q, k, v, projection=w)
            errors.append(error(found, exact))
        mean = error(v.mean(0, keepdim=True), exact)
        row = "  ".join(f"{e:8.3f}" for e in errors)
        print(f"{name}  {size:4}  {mean:.2f}  {row}")
# --8<-- [end:example]
