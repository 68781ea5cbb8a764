"""A padding mask of shape (b, m): an error, or none where sizes coincide."""

# --8<-- [start:example]
import torch
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
keep = torch.arange(7) < torch.tensor([[7], [4]])  # (b, m), True = may

for h, n in ((3, 5), (2, 2)):  # b = 2
    query = torch.randn(2, h, n, 8, generator=generator)  # (b, h, n, d)
    key, value = torch.randn(2, 2, h, 7, 8, generator=generator)  # m = 7
    other = value.clone()
    other[1, :, 4:] += 1.0  # another padding, behind sequence 1

    for mask in (
        keep,
        keep[:, None, :].expand(2, n, 7),  # (b, n, m)
        keep[:, None, None, :],
    ):
        print(f"h = {h}, n = {n}, mask {tuple(mask.shape)}:")
        try:
            before, after = (
                F.scaled_dot_product_attention(query, key, v, attn_mask=mask)
                for v in (value, other)
            )
            print("  padding has no effect:", torch.equal(before, after))
        except RuntimeError as error:
            print(f"  {error}".replace(" at non", "\n  at non"))
# --8<-- [end:example]
