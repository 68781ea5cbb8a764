"""A larger batch helps the projections; only shared heads help the cache."""

# --8<-- [start:example]
import torch
from attnref import cost

width, d, half = 4096, 128, torch.float16
print("batch  h_kv  projections   core   (operations per byte)")
for kv_heads in (32, 8):
    for batch in (1, 16, 256):
        sizes = cost.Sizes(
            n=1,
            m=4096,
            d_k=d,
            d_v=d,
            batch=batch,
            num_heads=32,
            num_kv_heads=kv_heads,
            dtype=half,
        )
        around = cost.multihead(sizes, width, cost.Cost(), bias=False)
        core = cost.of("fused", sizes)
        print(
            f"{batch:5}  {kv_heads:4}  {around.intensity:11.1f}  "
            f"{core.intensity:5.1f}"
        )
# --8<-- [end:example]
