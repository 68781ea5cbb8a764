"""What a gate adds to a layer, in parameters and operations."""

# --8<-- [start:example]
import torch
from attnref import MultiHeadAttention, cost

D, h, h_kv, d = 2048, 16, 2, 256
sizes = cost.Sizes(
    n=4096, m=4096, d_k=d, d_v=d, num_heads=h, num_kv_heads=h_kv
)
pairs = cost.allowed_pairs(4096, 4096, window=(None, 0))
core = cost.of("fused", sizes, pairs=pairs)

print("gate         parameters  million ops a token")
for gate in (None, "headwise", "elementwise"):
    with torch.device("meta"):  # nothing is drawn
        layer = MultiHeadAttention(
            D, h, num_kv_heads=h_kv, head_dim=d, bias=False, gate=gate
        )
    count = sum(weight.numel() for weight in layer.parameters())
    assert count == cost.parameters(sizes, D, bias=False, gate=gate)
    spent = cost.multihead(sizes, D, core, bias=False, gate=gate)
    per_token = spent.operations.total / 4096 / 1e6
    print(f"{gate or 'none':11} {count:11}  {per_token:19.1f}")
# --8<-- [end:example]
