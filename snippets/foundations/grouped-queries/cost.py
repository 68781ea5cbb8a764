"""What sharing keys and values saves, and what it does not."""

# --8<-- [start:example]
import torch
from attnref import cost

width, heads, layers = 8192, 64, 80
print("h_kv  parameters  score operations   cache per token  intensity")
print("       millions          millions               KiB")
for kv_heads in (64, 8, 1):
    # One new token, while 4096 are in the cache.
    sizes = cost.Sizes(
        n=1,
        m=4096,
        d_k=128,
        d_v=128,
        num_heads=heads,
        num_kv_heads=kv_heads,
        dtype=torch.float16,
    )
    parameters = cost.parameters(sizes, width, bias=False)
    core = cost.of("fused", sizes)
    token = layers * sizes.cache_bytes / sizes.m
    print(
        f"{kv_heads:4}  {parameters / 1e6:10.1f}  "
        f"{core.operations.matmul / 1e6:16.1f}  "
        f"{token / 2**10:16.0f}  {core.intensity:9.1f}"
    )
# --8<-- [end:example]
