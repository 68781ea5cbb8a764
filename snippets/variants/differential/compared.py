"""Two maps in half as many heads: what that costs beside attention."""

# --8<-- [start:example]
from attnref import cost

n, h, d = 4096, 16, 64
causal = cost.allowed_pairs(n, n, window=(None, 0))
usual = cost.Sizes(n=n, m=n, d_k=d, d_v=d, num_heads=h)
wide = cost.Sizes(n=n, m=n, d_k=d, d_v=2 * d, num_heads=h // 2)
rows = {
    "usual": (usual, cost.of("fused", usual, pairs=causal)),
    "differential": (wide, cost.of("differential", wide, pairs=causal)),
}
print("million operations of a layer's core")
print("              products  others  exponentials")
for name, (_, spent) in rows.items():
    done = spent.operations
    print(
        f"{name:12} {done.matmul / 1e6:9.0f} {done.elementwise / 1e6:7.0f}"
        f" {done.exponentials / 1e6:13.0f}"
    )
one, other = (spent.operations.matmul for _, spent in rows.values())
print(f"products: {other / one:.2f} times")
tokens = [
    sizes.num_heads * (maps * sizes.d_k + sizes.d_v)
    for maps, (sizes, _) in zip((1, 2), rows.values(), strict=True)
]
print("numbers cached per token:", *tokens)
# --8<-- [end:example]
