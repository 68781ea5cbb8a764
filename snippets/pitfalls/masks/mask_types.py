"""A mask of 0 and 1 in four types: what PyTorch makes of each."""

# --8<-- [start:example]
import textwrap

import torch
from torch.nn import functional as F

x = torch.zeros(1, 4)  # all scores are equal
keys, value = torch.zeros(4, 4), torch.eye(4)  # the output is the weights
keep = torch.tensor([[1, 1, 0, 0]])  # what a tokenizer returns

for mask in (keep, keep.double(), keep.float(), keep.bool()):
    try:
        out = F.scaled_dot_product_attention(x, keys, value, attn_mask=mask)
        shown = " ".join(f"{weight:.2f}" for weight in out[0])
    except RuntimeError as error:
        shown = str(error)
    print(textwrap.fill(f"{mask.dtype}: {shown}", 72))

for wrong in (
    lambda: x.masked_fill(keep.float(), -torch.inf),
    lambda: 1 - keep.bool(),
):
    try:
        wrong()
    except RuntimeError as error:
        print(textwrap.fill(str(error), 72))
# --8<-- [end:example]
