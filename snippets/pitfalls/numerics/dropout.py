"""A layer that goes on dropping after eval(), and its fix."""

# --8<-- [start:example]
import torch
from torch import nn
from torch.nn import functional as F


class Wrong(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.1)


class Right(nn.Module):
    def forward(self, x):
        p = 0.1 if self.training else 0.0
        return F.scaled_dot_product_attention(x, x, x, dropout_p=p)


torch.manual_seed(0)  # dropout draws from the global generator
x = torch.randn(7, 12)
for layer in (Wrong(), Right()):
    layer.eval()
    same = torch.equal(layer(x), layer(x))
    print(f"{type(layer).__name__}: the same twice in use: {same}")

try:  # ten per cent
    F.scaled_dot_product_attention(x, x, x, dropout_p=10)
except RuntimeError as error:
    print(error)
# --8<-- [end:example]
