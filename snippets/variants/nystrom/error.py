"""Nyström attention: its error against the number of landmarks."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.nystrom import nystrom_attention

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


counts = (4, 8, 16, 32, 64, 128)
print("tokens  steps  mean  " + "  ".join(f"r = {r:<3}" for r in counts))
for name, draw in (("smooth", waves), ("random", noise)):
    q, k, v = (draw().double() for _ in range(3))
    exact = attnref.scaled_dot_product_attention(q, k, v)
    mean = error(v.mean(0, keepdim=True), exact)
    for steps in (6, 40):
        errors = []
        for r in counts:
            found = nystrom_attention(
                q, k, v, num_landmarks=r, iterations=steps
            )
            errors.append(error(found, exact))
        row = "  ".join(f"{e:7.4f}" for e in errors)
        print(f"{name}  {steps:5}  {mean:.2f}  {row}")
# --8<-- [end:example]
