"""Linformer with means for projections: its error against their number."""

# --8<-- [start:example]
import attnref
import torch
from attnref import linformer_attention, mean_projection

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


def linformer(q, k, v, e, f):
    return linformer_attention(q, k, v, key_projection=e, value_projection=f)


counts = (8, 16, 32, 64, 128, 256)
print("tokens  means of   mean  " + "  ".join(f"r = {r:<3}" for r in counts))
for name, draw in (("smooth", waves), ("random", noise)):
    q, k, v = draw(), draw(), draw()
    exact = attnref.scaled_dot_product_attention(q, k, v)
    mean = error(v.mean(0, keepdim=True), exact)
    runs, chance = [], []
    for r in counts:
        means = mean_projection(r, n)
        runs.append(error(linformer(q, k, v, means, means), exact))
        e, f = torch.randn(2, r, n, generator=generator) / r**0.5
        chance.append(error(linformer(q, k, v, e, f), exact))
    for label, errors in (("runs", runs), ("chance", chance)):
        row = "  ".join(f"{x:7.4f}" for x in errors)
        print(f"{name}  {label:8}  {mean:5.2f}  {row}")
# --8<-- [end:example]
