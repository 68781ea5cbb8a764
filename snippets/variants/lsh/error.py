"""Attention by hashing: its error against the number of rounds."""

# --8<-- [start:example]
import attnref
import torch
from attnref import random_rotations
from attnref.minimal.lsh import lsh_attention

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


def directions():
    centres = 2 * torch.randn(16, d, generator=generator)
    group = torch.randint(16, (n,), generator=generator)
    query = centres[group] + 0.5 * noise()
    key = 8 * query / query.norm(dim=-1, keepdim=True)  # tied to the query
    return query, key, noise()


rounds = (1, 2, 4, 8)
print("tokens              mean  " + "  ".join(f"{r} rounds" for r in rounds))
for name, (q, k, v) in (
    ("smooth", (waves(), waves(), waves())),
    ("random", (noise(), noise(), noise())),
    ("directions", directions()),
):
    exact = attnref.scaled_dot_product_attention(q, k, v)
    drawn = random_rotations(8, d, num_buckets=16, generator=generator)
    errors, met = [], []
    for r in rounds:
        weights = lsh_attention(  # with a unit matrix for values
            q, k, torch.eye(n), rotations=drawn[:r], block_size=32
        )
        errors.append(error(weights @ v, exact))
        met.append((weights > 0).float().mean().item())
    mean = error(v.mean(0, keepdim=True), exact)
    row = "  ".join(f"{e:8.3f}" for e in errors)
    print(f"{name:10}  error  {mean:5.2f}  {row}")
    print(f"{'':10}  met         " + "  ".join(f"{x:8.2f}" for x in met))
# --8<-- [end:example]
