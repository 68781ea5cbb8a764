"""A batch taken for a sequence: the samples attend to each other."""

# --8<-- [start:example]
import torch
from torch import nn

torch.manual_seed(0)  # the layers draw their weights from it
x = torch.randn(2, 5, 24)  # (b, n, d_model)
other = x.clone()
other[1] += 1.0  # another second sample

for options in ({}, {"batch_first": True}):
    layer = nn.MultiheadAttention(24, 3, **options)
    before, after = (layer(x, x, x)[0][0] for x in (x, other))
    moved = not torch.allclose(before, after, atol=1e-6)
    print(f"{options}: sample 1 moves sample 0: {moved}")

try:
    layer(*[x.mT] * 3)
except AssertionError as error:
    print(error)
# --8<-- [end:example]
