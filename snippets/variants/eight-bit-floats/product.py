"""What rounding values and weights adds to rounding queries and keys."""

# --8<-- [start:example]
import attnref
import torch
from attnref import quantized_attention
from attnref.minimal.eight_bit_floats import float8_attention

n, d = 512, 64
generator = torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, n, d, generator=generator)
exact = attnref.scaled_dot_product_attention(q, k, v)
e4m3 = {"dtype": torch.float8_e4m3fn}
nvfp4 = {
    "dtype": torch.float4_e2m1fn_x2,
    "group_size": 16,
    "step_dtype": torch.float8_e4m3fn,
}

print("rounded                  e4m3  NVFP4")
for name, parts in (
    ("queries, keys", {}),
    ("and values", {"values": True}),
    ("and weights", {"weights": True}),
    ("and both", {"values": True, "weights": True}),
):
    errors = []
    for kind in (e4m3, nvfp4):
        found = quantized_attention(q, k, v, **kind, **parts)
        errors.append(float((found - exact).norm() / exact.norm()))
    print(f"{name:20}  {errors[0]:7.3f}  {errors[1]:5.3f}")
error = (float8_attention(q, k, v, block_size=1) - exact).norm()
print(f"{'the code below':20}  {error / exact.norm():7.3f}")
# --8<-- [end:example]
