"""What a wider key costs, and what more heads cost."""

# --8<-- [start:example]
from attnref import cost

n = width = 512


def line(heads, d_k, d_v):
    sizes = cost.Sizes(n=n, m=n, d_k=d_k, d_v=d_v, num_heads=heads)
    core = cost.of("plain", sizes)
    operations = cost.multihead(sizes, width, core).operations
    parameters = cost.parameters(sizes, width, bias=False)
    print(
        f"{heads:5}  {d_k:3}  {d_v:3}  {parameters / 1e6:10.2f}  "
        f"{operations.matmul / 1e6:8.1f}  "
        f"{operations.exponentials / 1e6:12.2f}"
    )


print("heads  d_k  d_v  parameters  products  exponentials  (millions)")
line(8, 64, 64)
line(8, 128, 64)  # wider queries and keys
line(8, 64, 128)  # wider values
print()
for heads in (1, 8, 64):  # the same width, cut into heads
    line(heads, width // heads, width // heads)
# --8<-- [end:example]
