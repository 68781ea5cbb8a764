"""The gradient reaches the table of buckets, and no bucket without pairs."""

# --8<-- [start:example]
import torch
from attnref import distance_bias_attention
from attnref.positions import distances, relative_buckets

h, n, d = 2, 40, 16
generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, h, n, d, generator=generator)
table = torch.zeros(h, 32, requires_grad=True)

buckets = relative_buckets(distances(n), bidirectional=False)
output = distance_bias_attention(
    query, key, value, table[:, buckets], is_causal=True, scale=1.0
)
output.square().sum().backward()

used = torch.unique(buckets).tolist()
print("buckets with pairs:", used[0], "to", used[-1])
learns = table.grad.abs().sum(0) > 0
print("buckets that learn:", int(learns.sum()))
print("beyond:", table.grad[:, used[-1] + 1 :].abs().sum().item())
# --8<-- [end:example]
