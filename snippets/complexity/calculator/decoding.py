"""The cache against the weights, while Llama 3.1 8B decodes a token."""

# --8<-- [start:example]
import torch
from attnref import cost
from attnref.roofline import Machine

layers, width, half = 32, 4096, torch.bfloat16
machine = Machine("H100", {half: 989e12}, 3.35e12, 3.9e12)

print("Llama 3.1 8B, all layers, one step of decoding on an H100")
print("batch  tokens  part         M ops.  MB moved     ms  limited by")
for batch, tokens in [(1, 20_493), (64, 333), (64, 32_768)]:
    sizes = cost.Sizes(
        n=1,
        m=tokens,
        d_k=128,
        d_v=128,
        batch=batch,
        num_heads=32,
        num_kv_heads=8,
        dtype=half,
    )
    for name, layer in {
        "core": cost.of("fused", sizes),
        "projections": cost.multihead(sizes, width, cost.Cost(), bias=False),
    }.items():
        spent = layer * layers
        found = machine.roofline(spent, dtype=half)
        print(
            f"{batch:5}  {tokens:6}  {name:11}  "
            f"{spent.operations.total / 1e6:6.0f}  "
            f"{spent.bytes_moved / 1e6:8.0f}  "
            f"{found.seconds * 1e3:5.2f}  {found.bound}"
        )
# --8<-- [end:example]
