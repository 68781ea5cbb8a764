"""The most that a cheaper attention can gain, as the text grows."""

# --8<-- [start:example]
from attnref import cost

width, heads, d = 768, 12, 64
print("     n  linear  window  free   (times fewer operations)")
for n in (64, 512, 4096, 32_768):
    sizes = cost.Sizes(n=n, m=n, d_k=d, d_v=d, num_heads=heads)
    window = (min(n, 256) - 1, 0)  # each token and the 255 before it
    near = cost.allowed_pairs(n, n, window=window)
    around = cost.multihead(sizes, width, cost.Cost())
    around += cost.feedforward(n, width, 4 * width)
    whole = (cost.of("plain", sizes) + around).operations.matmul
    line = f"{n:6}"
    for core in (
        cost.of("linear", sizes),
        cost.of("fused", sizes, pairs=near),
        cost.Cost(),
    ):
        line += f"  {whole / (core + around).operations.matmul:6.2f}"
    print(line)
# --8<-- [end:example]
