"""Causal with more keys than queries: which key is the query's own?"""

# --8<-- [start:example]
import torch
from attnref.minimal.causal import causal_attention
from attnref.minimal.masks import causal_mask
from torch.nn import functional as F

for alignment in ("top-left", "bottom-right"):
    print(alignment)
    for row in causal_mask(2, 5, alignment).tolist():
        print("".join("#" if may else "." for may in row))

# One new token, five cached keys, equal scores; the output shows the weights.
query, key, value = torch.zeros(1, 4), torch.zeros(5, 4), torch.eye(5)
sdpa, last = F.scaled_dot_product_attention, causal_mask(1, 5, "bottom-right")
for name, output in (
    ("is_causal=True", sdpa(query, key, value, is_causal=True)),
    ("bottom-right", sdpa(query, key, value, attn_mask=last)),
    ("minimal", causal_attention(query, key, value)),
):
    print(f"{name:14}", " ".join(f"{weight:.2f}" for weight in output[0]))
# --8<-- [end:example]
