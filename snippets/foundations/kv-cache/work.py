"""Operations to write n tokens, with a cache and without."""

# --8<-- [start:example]
from attnref import cost


def layer(n, m):
    """Operations of an attention layer: the last n of m tokens."""
    sizes = cost.Sizes(n=n, m=m, d_k=64, d_v=64, num_heads=12)
    pairs = cost.allowed_pairs(n, m, window=(None, m - n))
    core = cost.of("fused", sizes, pairs=pairs)
    return cost.multihead(sizes, 768, core).operations.matmul


print("billions of operations, and millions for the last token alone")
print("tokens  without cache  with cache  last token")
for n in (16, 256, 4096):
    without = sum(layer(t, t) for t in range(1, n + 1))
    cached = sum(layer(1, t) for t in range(1, n + 1))
    last = layer(1, n) / 1e6
    print(f"{n:6}  {without / 1e9:13.2f}  {cached / 1e9:10.2f}  {last:10.1f}")
    assert cached == layer(n, n)  # the causal pass over all of them
# --8<-- [end:example]
