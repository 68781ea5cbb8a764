"""Bytes that the plain formula and the tile-by-tile one hold at one time."""

# --8<-- [start:example]
import torch
from attnref import cost

GIB = 2**30
print("     n  scores   plain  tiles  inputs   (GiB)")
for n in (2048, 8192, 32_768, 131_072):
    sizes = cost.Sizes(
        n=n, m=n, d_k=128, d_v=128, num_heads=32, dtype=torch.float16
    )
    plain = cost.of("plain", sizes)
    tiles = cost.of("blockwise", sizes, block=(128, 128))
    inputs = 3 * 32 * n * 128 * sizes.dtype.itemsize  # Q, K and V
    print(
        f"{n:6}  {sizes.score_bytes / GIB:6.2f}  "
        f"{plain.peak_bytes / GIB:6.2f}  "
        f"{tiles.peak_bytes / GIB:5.2f}  {inputs / GIB:6.2f}"
    )
# --8<-- [end:example]
