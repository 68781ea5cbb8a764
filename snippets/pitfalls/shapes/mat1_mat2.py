"""A layer given another width than the one it was made for, and where the widths come from."""

# --8<-- [start:example]
import torch
from torch import nn

generator = torch.Generator().manual_seed(0)
x = torch.randn(2, 5, 24, generator=generator)  # (b, n, d_model)
heads = x.view(2, 5, 3, 8).transpose(1, 2)  # (b, h, n, d_k): 3 heads, 8 wide
project = nn.Linear(24, 24)

for name, given in (("heads", heads), ("joined", heads.transpose(1, 2).reshape(2, 5, 24))):
    try:
        print(f"{name} {tuple(given.shape)}: result {tuple(project(given).shape)}")
    except RuntimeError as error:
        print(f"{name} {tuple(given.shape)}: {error}")
# --8<-- [end:example]
