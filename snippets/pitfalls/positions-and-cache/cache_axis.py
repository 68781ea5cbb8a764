"""Keys appended along the wrong dimension, and room that is not filled."""

# --8<-- [start:example]
import torch
from attnref import KVCache
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
old_key, old_value = torch.randn(2, 1, 3, 6, 8, generator=generator)
new_key, new_value = torch.randn(2, 1, 3, 1, 8, generator=generator)
query = torch.randn(1, 3, 1, 8, generator=generator)
sdpa = F.scaled_dot_product_attention

try:
    torch.cat([old_key, new_key], dim=1)  # along the heads
except RuntimeError as error:
    print(error)
key = torch.cat([old_key, new_key], dim=-2)  # along the tokens
value = torch.cat([old_value, new_value], dim=-2)
right = sdpa(query, key, value)

room_k, room_v = torch.zeros(2, 1, 3, 16, 8)  # room for sixteen
room_k[:, :, :7], room_v[:, :, :7] = key, value
cache = KVCache(max_length=16)
cache.append(old_key, old_value)
for name, step in (
    ("all the room", sdpa(query, room_k, room_v)),
    ("what is written", sdpa(query, room_k[:, :, :7], room_v[:, :, :7])),
    ("attnref.KVCache", sdpa(query, *cache.append(new_key, new_value))),
):
    print(f"{name}: off by {(step - right).abs().max():.2f}")
# --8<-- [end:example]
