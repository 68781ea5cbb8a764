"""A sliding window in blocks: the band, and what is computed around it."""

# --8<-- [start:example]
import attnref
import torch
from attnref import masks, sliding_window_attention
from attnref.minimal.causal_window import causal_window_attention

n, d, window = 1000, 16, 64
generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, n, d, generator=generator)

mask = masks.sliding_window(n, window=window, is_causal=True)
expected = attnref.scaled_dot_product_attention(
    query, key, value, mask.dense()
)
minimal = causal_window_attention(query, key, value, window)
whole = sliding_window_attention(
    query, key, value, window=window, is_causal=True
)
for name, output in (("minimal", minimal), ("attnref", whole)):
    same = torch.allclose(output, expected, rtol=0, atol=1e-5)
    print(f"{name}: same as the definition: {same}")

blocks = -(-n // window)
print(f"pairs: {mask.count()} in the window")
print(f"       {blocks * window * 2 * window} in the blocks, {n * n} in all")
# --8<-- [end:example]
