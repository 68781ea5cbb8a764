"""Causal with more keys than queries: which key is the query's own?"""

# --8<-- [start:example]
import torch
from attnref.masks import causal
from torch.nn import functional as F

for alignment in ("top-left", "bottom-right"):
    print(alignment)
    print(causal(2, 5, alignment=alignment).picture())

# One new token, five cached keys, equal scores; the output shows the weights.
query, key, value = torch.zeros(1, 4), torch.zeros(5, 4), torch.eye(5)
sdpa = F.scaled_dot_product_attention
last = causal(1, 5, alignment="bottom-right").dense()
for name, options in (
    ("is_causal=True", {"is_causal": True}),
    ("bottom-right", {"attn_mask": last}),
):
    weights = sdpa(query, key, value, **options)[0].tolist()
    print(f"{name:14}", " ".join(f"{weight:.2f}" for weight in weights))
# --8<-- [end:example]
