"""What a mask saves: nothing by itself, blocks if the kernel skips them."""

# --8<-- [start:example]
from attnref import cost
from attnref.masks import causal

n = 4096
sizes = cost.Sizes(n=n, m=n, d_k=64, d_v=64)
full = cost.of("plain", sizes)

print("relative to no mask  pairs  operations  bytes  operations, skipping")
for name, window in (
    ("bidirectional", (None, None)),
    ("causal", (None, 0)),
    ("last 256 keys", (255, 0)),
):
    pairs = cost.allowed_pairs(n, n, window=window) / n**2
    dense = cost.of("plain", sizes, masked=window != (None, None))
    products = dense.operations.matmul / full.operations.matmul
    moved = dense.bytes_moved / full.bytes_moved
    blocks = cost.of("blockwise", sizes, block=(128, 128), window=window)
    skipping = blocks.operations.matmul / full.operations.matmul
    print(
        f"{name:19}  {pairs:.3f}  {products:10.3f}"
        f"  {moved:5.3f}  {skipping:20.3f}"
    )

print("\nblocks of 2 × 2: 0 skip, 1 look at the mask, 2 compute without it")
print(causal(8).block_summary(2).tolist())
# --8<-- [end:example]
