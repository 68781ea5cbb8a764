"""A random rotation of queries and keys spreads their outliers."""

# --8<-- [start:example]
import attnref
import torch
from attnref import quantized_attention

n, d = 512, 64
generator = torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, n, d, generator=generator)
for tokens in (q, k):  # in each token, large components of its own
    tokens[torch.rand(n, d, generator=generator) < 0.01] *= 10
exact = attnref.scaled_dot_product_attention(q, k, v)

hadamard = torch.ones(1, 1)
while len(hadamard) < d:
    hadamard = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), hadamard)
signs = torch.randint(2, (d, 1), generator=generator) * 2.0 - 1
rotation = signs * hadamard / d**0.5  # orthogonal

turned = q @ rotation, k @ rotation
moved = (turned[0] @ turned[1].mT - q @ k.mT).abs().max()
print(f"scores move by at most {moved:.0e}, of {(q @ k.mT).abs().max():.0f}")
largest, spread = k.abs().max(), turned[1].abs().max()
print(f"largest component: {largest:.1f}, rotated {spread:.1f}")
print("        as it is  rotated")
for name, dtype in (
    ("int8", torch.int8),
    ("e4m3", torch.float8_e4m3fn),
    ("e2m1", torch.float4_e2m1fn_x2),
):
    errors = [
        (quantized_attention(*pair, v, dtype=dtype) - exact).norm()
        / exact.norm()
        for pair in ((q, k), turned)
    ]
    print(f"{name:6}  {errors[0]:8.4f}  {errors[1]:7.4f}")
# --8<-- [end:example]
