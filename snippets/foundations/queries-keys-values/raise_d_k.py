"""What doubling d_k alone costs a layer of eight heads."""

# --8<-- [start:example]
from attnref import cost

d_model = 512
for d_k in (64, 128):
    sizes = cost.Sizes(n=512, m=512, d_k=d_k, d_v=64, num_heads=8)
    weights = cost.parameters(sizes, d_model, bias=False)
    layer = cost.multihead(sizes, d_model, cost.of("plain", sizes), bias=False)
    print(f"d_k = {d_k}")
    print("  weights               ", weights)
    print("  operations in products", layer.operations.matmul)
    print("  exponentials          ", layer.operations.exponentials)
    print("  bytes in the cache    ", sizes.cache_bytes)
# --8<-- [end:example]
