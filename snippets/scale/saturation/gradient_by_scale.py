"""The Jacobian and the query's gradient, from a weak to a strong factor."""

# --8<-- [start:example]
import torch
from attnref import score_statistics

d_k, n, queries = 64, 64, 2000
generator = torch.Generator().manual_seed(0)
q = torch.randn(queries, 1, d_k, generator=generator)
k = torch.randn(queries, n, d_k, generator=generator)
upstream = torch.randn(queries, 1, n, generator=generator)

print("c sqrt(d_k)  trace of J: mean  median  gradient: mean  median")
for times in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32, 64):
    c = times / d_k**0.5
    found = score_statistics.measure(q, k, scale=c, upstream=upstream)
    trace, gradient = found.jacobian_trace, found.query_gradient
    print(
        f"{times:11.3f}  {trace.mean():16.3f}  {trace.median():6.3f}"
        f"  {gradient.mean():14.3f}  {gradient.median():6.3f}"
    )
# --8<-- [end:example]
