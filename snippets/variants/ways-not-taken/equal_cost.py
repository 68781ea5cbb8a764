"""Four approximations at a quarter of full attention's multiplications."""

# --8<-- [start:example]
import torch
from attnref import (
    linformer_attention,
    lsh_attention,
    mean_projection,
    nystrom_attention,
    performer_attention,
    random_projection,
    random_rotations,
    scaled_dot_product_attention,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

n, d = 1024, 64
generator = torch.Generator().manual_seed(0)


def noise():
    return torch.randn(n, d, generator=generator)


def waves():
    place = torch.arange(n)[:, None] / n
    phase, speed = torch.rand(2, d, generator=generator)
    turns = (1 + 2 * speed) * place + phase
    return 2 * torch.sin(2 * torch.pi * turns)


def peaked():  # each query resembles one key
    key = 1.5 * noise()
    order = torch.randperm(n, generator=generator)
    return key[order] + 0.5 * noise(), key, noise()


def products(method, tokens):
    plain = sdpa_kernel(SDPBackend.MATH)  # the counter sees into no kernel
    with plain, FlopCounterMode(display=False) as counter:
        method(*tokens)
    return counter.get_total_flops() / (4 * n**2 * d)  # of full attention's


def error(found, exact):
    return float((found - exact).norm() / exact.norm())


w = random_projection(128, d, generator=generator)
means = mean_projection(128, n)
turns = random_rotations(4, d, num_buckets=16, generator=generator)
methods = {
    "mean of the values": lambda q, k, v: v.mean(0, keepdim=True),
    "performer": lambda *x: performer_attention(*x, projection=w),
    "linformer": lambda *x: linformer_attention(
        *x, key_projection=means, value_projection=means
    ),
    "nystrom": lambda *x: nystrom_attention(*x, num_landmarks=66),
    "lsh": lambda *x: lsh_attention(*x, rotations=turns, block_size=18),
}
kinds = {
    "smooth": (waves(), waves(), waves()),
    "flat": (noise() / 4, noise() / 4, noise()),
    "peaked": peaked(),
}
print("method              products  " + "  ".join(f"{x:>6}" for x in kinds))
for name, method in methods.items():
    share = products(method, kinds["flat"])
    errors = [
        error(method(*x), scaled_dot_product_attention(*x))
        for x in kinds.values()
    ]
    row = "  ".join(f"{e:6.3f}" for e in errors)
    print(f"{name:18}  {share:8.2f}  {row}")
# --8<-- [end:example]
