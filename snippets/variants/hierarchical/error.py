"""Hierarchical attention: its error against the number of means a block."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.hierarchical import hierarchical_attention

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


counts = (1, 2, 4, 8, 16)
print("tokens   mean  " + "  ".join(f"r = {r:<2}" for r in counts))
for name, draw in (("smooth", waves), ("random", noise)):
    q, k, v = draw(), draw(), draw()
    exact = attnref.scaled_dot_product_attention(q, k, v)
    errors = [error(v.mean(0, keepdim=True), exact)]
    for r in counts:
        found = hierarchical_attention(q, k, v, block_size=16, num_means=r)
        errors.append(error(found, exact))
    print(f"{name}  " + "  ".join(f"{e:6.4f}"[:6] for e in errors))
# --8<-- [end:example]
