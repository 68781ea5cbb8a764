"""A padding mask of shape (b, m) where n differs from b, and its cure."""

# --8<-- [start:example]
import torch
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
query = torch.randn(2, 3, 5, 8, generator=generator)  # (b, h, n, d)
key, value = torch.randn(2, 2, 3, 7, 8, generator=generator)  # m = 7
keep = torch.arange(7) < torch.tensor([[7], [4]])  # (b, m), True = may
per_query = keep[:, None, :].expand(2, 5, 7)  # (b, n, m)

for mask in (
    keep,
    per_query,
    keep[:, None, None, :],
    per_query[:, None],
):
    print(tuple(mask.shape))
    try:
        F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        print("  fits, one mask a sequence")
    except RuntimeError as error:
        print(" ", str(error).replace(" at non", "\n  at non"))
# --8<-- [end:example]
