"""A window of three keys written with triu, and a cache of three keys."""

# --8<-- [start:example]
import torch
from torch.nn import functional as F

window = 3
generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, 6, 8, generator=generator)
past = torch.ones(6, 6, dtype=torch.bool).tril()

# The last step of generation: one query, and a cache of the last three keys.
step = F.scaled_dot_product_attention(
    query[-1:], key[-window:], value[-window:]
)
for name, mask in (
    ("triu(-window)", past.triu(-window)),
    ("triu(1 - window)", past.triu(1 - window)),
):
    training = F.scaled_dot_product_attention(query, key, value, mask)
    same = torch.allclose(training[-1:], step, atol=1e-6)
    seen = int(mask[-1].sum())
    print(f"{name:17} keys seen: {seen}  as with the cache: {same}")
# --8<-- [end:example]
