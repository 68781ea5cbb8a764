"""Linear attention equals its own square, and differs from softmax."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.linear import linear_attention

n, d = 512, 64
generator = torch.Generator().manual_seed(0)


def waves():
    place = torch.arange(n)[:, None] / n
    phase, speed = torch.rand(2, d, generator=generator)
    turns = (1 + 2 * speed) * place + phase
    return 2 * torch.sin(2 * torch.pi * turns)  # (n, d)


def noise():
    return torch.randn(n, d, generator=generator)


def phi(x):
    return torch.exp(x.clamp(max=0)) + torch.relu(x)  # elu(x) + 1


def error(found, exact):
    return float((found - exact).norm() / exact.norm())


print("tokens  equals its square  linear to softmax  mean to softmax")
for name, draw in (("smooth", waves), ("random", noise)):
    q, k, v = draw(), draw(), draw()
    softmax = attnref.scaled_dot_product_attention(q, k, v)
    linear = linear_attention(q, k, v)
    square = phi(q) @ phi(k).T  # (n, n)
    square = square / square.sum(-1, keepdim=True) @ v
    same = torch.allclose(linear, square, atol=1e-5)
    mean = v.mean(0, keepdim=True)
    print(
        f"{name}  {same!s:17}"
        f"  {error(linear, softmax):17.2f}  {error(mean, softmax):15.2f}"
    )
# --8<-- [end:example]
