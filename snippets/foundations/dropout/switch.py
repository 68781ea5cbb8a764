"""A function drops whenever it is told to; a module knows when to stop."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.dropout import dropout_attention
from torch.nn import functional as F

torch.manual_seed(0)  # dropout draws from the global generator
x = torch.randn(7, 12)
layer = attnref.MultiHeadAttention(12, 3, dropout_p=0.1)

for mode in ("train", "eval"):
    getattr(layer, mode)()
    same = torch.equal(layer(x), layer(x))
    print(f"the module in {mode} mode gives the same twice: {same}")

layer.eval()
once, twice = (
    F.scaled_dot_product_attention(x, x, x, dropout_p=0.1) for _ in range(2)
)
print("the function, whatever the mode:", torch.equal(once, twice))
once, twice = (
    dropout_attention(x, x, x, 0.1, training=layer.training) for _ in range(2)
)
print("the function, told of the mode:", torch.equal(once, twice))
# --8<-- [end:example]
