"""A learned sink takes weight, and gives nothing."""

# --8<-- [start:example]
import torch
from attnref import attention_weights, blockwise_attention

generator = torch.Generator().manual_seed(0)
query = torch.randn(1, 8, generator=generator)
keys = torch.randn(5, 8, generator=generator)
values = torch.ones(5, 1)

for sink in (None, 0.0, 2.0, 6.0):
    weights = attention_weights(query, keys, sink=sink)
    output = blockwise_attention(query, keys, values, sink=sink)
    row = "  ".join(f"{weight:.3f}" for weight in weights[0])
    sums = f"sum {weights.sum():.3f}  output {output.item():.3f}"
    print(f"sink {sink!s:4}  {row}  {sums}")
# --8<-- [end:example]
