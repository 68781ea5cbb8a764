"""How much gradient reaches the query, as the heads get wider."""

# --8<-- [start:example]
import attnref
import torch

queries, n = 2048, 64
generator = torch.Generator().manual_seed(0)

print(" d_k  scale         mean    median")
for d_k in (16, 64, 256, 1024):
    q = torch.randn(queries, 1, d_k, generator=generator, requires_grad=True)
    k = torch.randn(n, d_k, generator=generator)
    # dL/dP, as it might arrive from a loss
    upstream = torch.randn(queries, 1, n, generator=generator)
    for name, factor in {
        "none": 1.0,
        "1/sqrt(d_k)": d_k**-0.5,
        "1/d_k": 1 / d_k,
    }.items():
        p = attnref.attention_weights(q, k, scale=factor)
        (gradient,) = torch.autograd.grad(p, q, upstream)
        norms = gradient.norm(dim=-1)
        print(f"{d_k:4}  {name:12}  {norms.mean():.4f}  {norms.median():.4f}")
# --8<-- [end:example]
