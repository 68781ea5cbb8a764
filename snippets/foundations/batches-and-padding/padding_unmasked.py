"""Four positions of padding take their share, unless a mask forbids it."""

# --8<-- [start:example]
import attnref
import torch
from attnref.masks import padding

words = torch.tensor(
    [
        [0.43, 0.15, 0.89],  # Your
        [0.55, 0.87, 0.66],  # journey
        [0.57, 0.85, 0.64],  # starts
        [0.22, 0.58, 0.33],  # with
        [0.77, 0.25, 0.10],  # one
        [0.05, 0.80, 0.55],  # step
    ]
)
padded = torch.cat([words, torch.zeros(4, 3)])  # (10, 3)
mask = padding([6], 10).dense()[0, 0]  # (1, 10): the same for every query

print("journey            on padding  context vector")
for name, x, attn_mask in (
    ("six words alone", words, None),
    ("padded to ten", padded, None),
    ("padded and masked", padded, mask),
):
    output, weights, _ = attnref.attend(x, x, x, attn_mask, scale=1.0)
    share = weights[1, 6:].sum()
    context = ", ".join(f"{number:.4f}" for number in output[1])
    print(f"{name:17}  {share:10.1%}  ({context})")
# --8<-- [end:example]
