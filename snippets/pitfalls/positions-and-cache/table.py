"""A text longer than the table of positions."""

# --8<-- [start:example]
import textwrap

import torch
from attnref.positions import LearnedPositions, sinusoidal
from torch import nn

places = torch.arange(600)
for name, table in (
    ("nn.Embedding", lambda: nn.Embedding(512, 8)(places)),
    ("attnref", lambda: LearnedPositions(512, 8)(600)),
    ("sinusoidal", lambda: sinusoidal(600, 8)),
):
    try:
        print(f"{name}: {tuple(table().shape)}")
    except (IndexError, ValueError) as error:
        print(textwrap.fill(f"{name}: {error}", 72))
# --8<-- [end:example]
