"""A cache that forgets: the first tokens stay, and a window of the newest."""

# --8<-- [start:example]
import torch
from attnref import (
    StreamingCache,
    kv_cache_attention,
    masks,
    scaled_dot_product_attention,
)

generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, 2, 1000, 16, generator=generator)

cache, rows = StreamingCache(first=4, window=60), []
for step in range(1000):
    now = slice(step, step + 1)
    keys, values = cache.append(key[:, now], value[:, now])
    rows.append(kv_cache_attention(query[:, now], keys, values))

window = masks.sliding_window(1000, window=60, is_causal=True)
allowed = masks.causal(1000) & (window | masks.padding([4], 1000))
whole = scaled_dot_product_attention(query, key, value, allowed.dense()[0])
torch.testing.assert_close(torch.cat(rows, 1), whole)

print("tokens seen:", cache.length, " keys held:", keys.shape[1])
print("equal to one pass under the mask")
# --8<-- [end:example]
