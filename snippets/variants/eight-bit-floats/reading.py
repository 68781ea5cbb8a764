"""What a step of decoding reads of a cache in several formats."""

# --8<-- [start:example]
import torch
from attnref import cost

step = cost.Sizes(
    n=1,
    m=32768,
    d_k=128,
    d_v=128,
    num_heads=32,
    num_kv_heads=8,
    dtype=torch.bfloat16,
)
formats = {
    "bfloat16": cost.of("fused", step),
    "e4m3, a step per token": cost.of("quantized", step, bits=8),
    "NVFP4": cost.of("quantized", step, bits=4, step_bits=8, group_size=16),
    "MXFP4": cost.of("quantized", step, bits=4, step_bits=8, group_size=32),
}
wide = formats["bfloat16"]
print("a layer, 32768 tokens     MiB read   share   operations per byte")
for name, spent in formats.items():
    share = spent.bytes_read / wide.bytes_read
    print(
        f"{name:24} {spent.bytes_read / 2**20:9.1f}  {share:6.1%}"
        f"  {spent.intensity:12.1f}"
    )
# --8<-- [end:example]
