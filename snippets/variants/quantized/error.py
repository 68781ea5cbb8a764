"""Quantised attention: three kinds of keys, smoothed and not."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.quantized import quantize, quantized_attention

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


def outlier():
    return noise() + 30 * torch.eye(d)[3]  # one large channel, in every token


print("keys     smoothed  as they are")
for name, draw in (("smooth", waves), ("random", noise), ("outlier", outlier)):
    q, k, v = noise(), draw(), noise()
    exact = attnref.scaled_dot_product_attention(q, k, v)
    smoothed = error(quantized_attention(q, k, v), exact)
    plain = error(attnref.quantized_attention(q, k, v, smooth=False), exact)
    print(f"{name:7}  {smoothed:8.4f}  {plain:11.4f}")

integers, step = quantize(torch.tensor([[0.5, -1.0, 0.1], [0.5, -30.0, 0.1]]))
print("\nintegers of two tokens:", integers.tolist())
print("what they stand for:")
for row in integers * step:
    print("  ".join(f"{x:7.3f}" for x in row))
taken = sum(part.nbytes for part in quantize(k))
print(f"bytes of the keys: {taken} instead of {k.nbytes}")
# --8<-- [end:example]
