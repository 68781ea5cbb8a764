"""A layer given another width than it was made for: heads not yet joined."""

# --8<-- [start:example]
import torch
from torch import nn

generator = torch.Generator().manual_seed(0)
x = torch.randn(2, 5, 24, generator=generator)  # (b, n, d_model)
heads = x.view(2, 5, 3, 8).transpose(1, 2)  # (b, h, n, d_k)
joined = heads.transpose(1, 2).reshape(2, 5, 24)
project = nn.Linear(24, 24)

for given in (heads, joined):
    try:
        print(tuple(given.shape), "gives", tuple(project(given).shape))
    except RuntimeError as error:
        print(tuple(given.shape), "stops:", error)
# --8<-- [end:example]
