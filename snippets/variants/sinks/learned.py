"""A learned sink takes weight, and gives nothing."""

# --8<-- [start:example]
import torch
from attnref import attention_weights, blockwise_attention
from attnref.minimal.sink import sink_attention

generator = torch.Generator().manual_seed(0)
query = torch.randn(1, 8, generator=generator).expand(4, 1, 8)
keys = torch.randn(5, 8, generator=generator).expand(4, 5, 8)
values = torch.ones(4, 5, 1)
sinks = torch.tensor([-torch.inf, 0.0, 2.0, 6.0])  # one for each head

weights = attention_weights(query, keys, sink=sinks)
minimal = sink_attention(query, keys, values, sinks)
whole = blockwise_attention(query, keys, values, sink=sinks)
torch.testing.assert_close(minimal, whole)

for head, sink in enumerate(sinks.tolist()):
    row = "  ".join(f"{weight:.3f}" for weight in weights[head, 0])
    sums = f"sum {weights[head].sum():.3f}"
    print(f"sink {sink:4}  {row}  {sums}  output {minimal[head].item():.3f}")
# --8<-- [end:example]
