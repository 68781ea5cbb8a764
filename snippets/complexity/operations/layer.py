"""The operations of one encoder layer, counted by formula and by PyTorch."""

# --8<-- [start:example]
import torch
from attnref import cost
from torch.utils.flop_counter import FlopCounterMode

n, width, heads, hidden = 512, 768, 12, 3072  # BERT-base
d = width // heads
sizes = cost.Sizes(n=n, m=n, d_k=d, d_v=d, num_heads=heads)
parts = {
    "projections": cost.multihead(sizes, width, cost.Cost()),
    "scores and averages": cost.of("plain", sizes),
    "feed-forward": cost.feedforward(n, width, hidden),
}
layer = sum(parts.values(), cost.Cost()).operations
print("products, in millions of operations")
for name, spent in parts.items():
    products = spent.operations.matmul
    print(f"{name:19}  {products / 1e6:6.1f}  {products / layer.matmul:.1%}")
print(f"{'together':19}  {layer.matmul / 1e6:6.1f}")

with torch.device("meta"), FlopCounterMode(display=False) as counter:
    encoder = torch.nn.TransformerEncoderLayer(
        width, heads, hidden, batch_first=True
    )
    # In training mode: in eval() a fused layer may run, which is not counted.
    encoder(torch.empty(1, n, width, requires_grad=True))
print("PyTorch counts as many:", counter.get_total_flops() == layer.matmul)
print(f"not in products: {layer.elementwise / 1e6:.1f}, ", end="")
print(f"exponentials: {layer.exponentials / 1e6:.1f}")
# --8<-- [end:example]
