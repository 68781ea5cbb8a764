"""What the softmax makes of random scores over 64 keys, by scale factor."""

# --8<-- [start:example]
import attnref
import torch

queries, n = 4096, 64
generator = torch.Generator().manual_seed(0)

print(" d_k  scale       largest weight  keys  trace of J")
for d_k in (16, 64, 256, 1024):
    q = torch.randn(queries, 1, d_k, generator=generator)
    k = torch.randn(n, d_k, generator=generator)
    for name, factor in {
        "none": 1.0,
        "1/sqrt(d_k)": d_k**-0.5,
        "1/d_k": 1 / d_k,
    }.items():
        # One row of n weights for each query: (queries, 1, n)
        p = attnref.attention_weights(q, k, scale=factor)
        largest = p.amax(-1).mean()
        entropy = -torch.special.xlogy(p, p).sum(-1)
        keys = entropy.exp().mean()
        trace = (1 - p.square().sum(-1)).mean()
        print(
            f"{d_k:4}  {name:12}  {largest:12.3f}  {keys:4.1f}  {trace:10.3f}"
        )
# --8<-- [end:example]
