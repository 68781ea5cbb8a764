"""What a step of decoding reads of a cache in several formats."""

# --8<-- [start:example]
import torch
from attnref.cost import Sizes, fused, quantized

step = Sizes(
    n=1,
    m=32768,
    d_k=128,
    d_v=128,
    num_heads=32,
    num_kv_heads=8,
    dtype=torch.bfloat16,
)
formats = {
    "bfloat16": fused(step),
    "e4m3, a step per token": quantized(step, bits=8),
    "NVFP4": quantized(step, bits=4, step_bits=8, group_size=16),
    "MXFP4": quantized(step, bits=4, step_bits=8, group_size=32),
}
wide = formats["bfloat16"]
print("a layer, 32768 tokens     MiB read   share   operations per byte")
for name, cost in formats.items():
    share = cost.bytes_read / wide.bytes_read
    print(
        f"{name:24} {cost.bytes_read / 2**20:9.1f}  {share:6.1%}"
        f"  {cost.intensity:12.1f}"
    )
# --8<-- [end:example]
