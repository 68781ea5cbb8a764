"""What nn.MultiheadAttention says of masks, and the mask that it takes."""

# --8<-- [start:example]
import textwrap

import torch
from torch import nn

x = torch.zeros(2, 5, 24)  # (b, n, d_model)
layer = nn.MultiheadAttention(24, 3, batch_first=True)
per_sample = torch.zeros(2, 5, 5, dtype=torch.bool)  # True = may not

for options in (
    {"attn_mask": per_sample},
    {"attn_mask": torch.zeros(5, 7, dtype=torch.bool)},
    {"is_causal": True},
    {"attn_mask": per_sample.repeat_interleave(3, dim=0)},
):
    try:
        output, _ = layer(x, x, x, **options)
        print("accepted:", tuple(options["attn_mask"].shape))
    except RuntimeError as error:
        print(textwrap.fill(str(error), 72))
# --8<-- [end:example]
