"""A new token behind a cache: which position it takes, and what it gives."""

# --8<-- [start:example]
import attnref
import torch
from attnref.positions import rotary

generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, 7, 8, generator=generator)
whole = attnref.scaled_dot_product_attention(
    rotary(query), rotary(key), value, is_causal=True
)

past = rotary(key[:6])  # in the cache, turned when they came
for name, offset in (("position 0", 0), ("position 6", len(past))):
    new_query = rotary(query[6:], offset=offset)
    keys = torch.cat([past, rotary(key[6:], offset=offset)])
    step = attnref.scaled_dot_product_attention(new_query, keys, value)
    same = torch.allclose(step, whole[6:], atol=1e-6)
    print(f"turned as {name}: as without a cache: {same}")

turned_again = rotary(torch.cat([past, key[6:]]))
step = attnref.scaled_dot_product_attention(new_query, turned_again, value)
same = torch.allclose(step, whole[6:], atol=1e-6)
print(f"the cache turned at each step: as without a cache: {same}")
# --8<-- [end:example]
