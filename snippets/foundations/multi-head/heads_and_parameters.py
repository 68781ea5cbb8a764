"""The same layer cut into more and more heads."""

# --8<-- [start:example]
from attnref import cost

n, d_model = 1024, 512

print("  h  d_k  parameters  operations  exponentials  scores held")
for h in (1, 2, 4, 8, 16, 32):
    d_k = d_model // h
    sizes = cost.Sizes(n=n, m=n, d_k=d_k, d_v=d_k, num_heads=h)
    work = cost.multihead(sizes, d_model, cost.of("plain", sizes), bias=False)
    parameters = cost.parameters(sizes, d_model, bias=False)
    products = work.operations.matmul / 1e9
    exponentials = work.operations.exponentials / 1e6
    print(
        f"{h:3}  {d_k:3}  {parameters:10}  {products:7.2f}e9"
        f"  {exponentials:10.1f}e6  {sizes.score_bytes / 2**20:7.0f} MiB"
    )

wide = cost.Sizes(n=n, m=n, d_k=d_model, d_v=d_model, num_heads=8)
parameters = cost.parameters(wide, d_model, bias=False)
print(f"8 heads, each as wide as the model: {parameters} parameters")
# --8<-- [end:example]
