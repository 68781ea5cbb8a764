"""What training keeps: all weights, or one number per row."""

# --8<-- [start:example]
import torch
from attnref import cost

tile = (128, 128)
print("    n   plain  tiles  MiB   operations, ratio")
for n in (1024, 2048, 4096, 8192):
    sizes = cost.Sizes(
        n=n, m=n, d_k=64, d_v=64, num_heads=16, dtype=torch.float16
    )
    kept = cost.of("plain", sizes) + cost.of("plain", sizes, backward=True)
    again = cost.of("blockwise", sizes, block=tile, return_lse=True)
    again += cost.of("blockwise", sizes, block=tile, backward=True)
    ratio = again.operations.matmul / kept.operations.matmul
    print(
        f"{n:5}  {kept.peak_bytes / 2**20:6.0f}  "
        f"{again.peak_bytes / 2**20:5.0f}  {ratio:19.3f}"
    )
# --8<-- [end:example]
