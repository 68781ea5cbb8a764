"""All methods at one size, on tokens with and without structure."""

# --8<-- [start:example]
import attnref
import torch
from attnref import (
    hierarchical_attention,
    linear_attention,
    linformer_attention,
    lsh_attention,
    mean_projection,
    nystrom_attention,
    performer_attention,
    quantized_attention,
    random_projection,
    random_rotations,
    topk_attention,
)

n, d = 1024, 64
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


w = random_projection(256, d, generator=generator)
turns = random_rotations(4, d, num_buckets=16, generator=generator)
means = mean_projection(64, n)
methods = {
    "mean of the values": lambda q, k, v: v.mean(0, keepdim=True),
    "linear": linear_attention,
    "performer": lambda *x: performer_attention(*x, projection=w),
    "linformer": lambda *x: linformer_attention(
        *x, key_projection=means, value_projection=means
    ),
    "nystrom": nystrom_attention,
    "hierarchical": lambda *x: hierarchical_attention(*x, block_size=16),
    "lsh": lambda *x: lsh_attention(*x, rotations=turns, block_size=16),
    "topk": lambda *x: topk_attention(*x, num_keys=64),
    "quantized": quantized_attention,
}
smooth, random = [waves() for _ in "qkv"], [noise() for _ in "qkv"]
print(f"{'method':18}  smooth  random")
for name, method in methods.items():
    errors = [
        error(method(*x), attnref.scaled_dot_product_attention(*x))
        for x in (smooth, random)
    ]
    print(f"{name:18}  {errors[0]:6.3f}  {errors[1]:6.3f}")
# --8<-- [end:example]
