"""Decoding with a cache: token by token, in groups, with a draft."""

# --8<-- [start:example]
import attnref
import torch
from attnref import kv_cache_attention

heads, key_heads, n, d = 8, 2, 12, 16
generator = torch.Generator().manual_seed(0)
query = torch.randn(1, heads, n, d, generator=generator)
key, value = torch.randn(2, 1, key_heads, n, d, generator=generator)

cache, outputs = attnref.KVCache(max_length=n), []
for size in (6, 1, 1, 4):  # a prompt, two tokens, a draft of four
    new = slice(cache.length, cache.length + size)
    keys, values = cache.append(key[:, :, new], value[:, :, new])
    outputs.append(
        kv_cache_attention(query[:, :, new], keys, values, enable_gqa=True)
    )
    print(f"{size} new, {cache.length:2} in the cache")

whole = attnref.scaled_dot_product_attention(
    query, key, value, is_causal=True, enable_gqa=True
)
same = torch.allclose(torch.cat(outputs, -2), whole, rtol=0, atol=1e-6)
print("rows of one causal pass:", same)
# --8<-- [end:example]
