"""A cache of eight-bit floats: each token is rounded once."""

# --8<-- [start:example]
import torch
from attnref import (
    KVCache,
    QuantizedTokens,
    kv_cache_attention,
    quantize,
    scaled_dot_product_attention,
)

heads, n, d = 8, 256, 64
generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, heads, n, d, generator=generator)
exact = scaled_dot_product_attention(query, key, value, is_causal=True)

caches = values, steps = KVCache(max_length=n), KVCache(max_length=n)
rows = []
for i in range(n):
    new = slice(i, i + 1)
    k, v = (
        quantize(x[:, new], dtype=torch.float8_e4m3fn) for x in (key, value)
    )
    numbers = values.append(k.values, v.values)
    sizes = steps.append(k.step, v.step)
    held = [
        QuantizedTokens(*pair).dequantize()
        for pair in zip(numbers, sizes, strict=True)
    ]
    rows.append(kv_cache_attention(query[:, new], *held))
output = torch.cat(rows, dim=-2)

taken, wide = sum(cache.nbytes for cache in caches), 2 * heads * n * d * 2
print(f"bytes: {taken}, in float16 {wide}, {taken / wide:.1%}")
print(f"relative error: {(output - exact).norm() / exact.norm():.3f}")
# --8<-- [end:example]
