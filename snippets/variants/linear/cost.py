"""Products of linear and of softmax attention, and where they are equal."""

# --8<-- [start:example]
from attnref import cost

print("    n  softmax  linear  ratio   (millions of operations, d = 64)")
for n in (32, 64, 256, 1024, 4096):
    sizes = cost.Sizes(n=n, m=n, d_k=64, d_v=64)
    softmax = cost.of("plain", sizes).operations.matmul / 1e6
    linear = cost.of("linear", sizes).operations.matmul / 1e6
    print(f"{n:5}  {softmax:7.1f}  {linear:6.1f}  {linear / softmax:.3f}")
# --8<-- [end:example]
