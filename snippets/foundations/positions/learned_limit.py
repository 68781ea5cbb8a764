"""A learned table ends; a matrix of weights does not."""

# --8<-- [start:example]
import textwrap

import attnref
import torch
from attnref.positions import LearnedPositions

layer = attnref.MultiHeadAttention(16, 2)
table = LearnedPositions(512, 16)

x = torch.randn(513, 16, generator=torch.Generator().manual_seed(0))
print("the layer on 513 words:", tuple(layer(x).shape))
try:
    table(513)
except ValueError as error:
    print("the table:")
    print(textwrap.fill(str(error), 72))
# --8<-- [end:example]
