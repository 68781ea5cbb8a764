"""Four bits with steps of three kinds: memory and error."""

# --8<-- [start:example]
import attnref
import torch
from attnref import quantize, quantized_attention

n, d = 512, 64
generator = torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, n, d, generator=generator)
exact = attnref.scaled_dot_product_attention(q, k, v)
four = torch.float4_e2m1fn_x2
kinds = {
    "a step of float32 a token": {},
    "MXFP4: a power of two for 32": {
        "group_size": 32,
        "step_dtype": torch.float8_e8m0fnu,
    },
    "NVFP4: an e4m3 for 16": {
        "group_size": 16,
        "step_dtype": torch.float8_e4m3fn,
    },
}
print(f"{'steps':30}  bits  error of the output")
for name, kind in kinds.items():
    bits = 8 * quantize(k, dtype=four, **kind).nbytes / k.numel()
    found = quantized_attention(q, k, v, dtype=four, **kind)
    error = (found - exact).norm() / exact.norm()
    print(f"{name:30}  {bits:.2f}  {error:.3f}")
# --8<-- [end:example]
