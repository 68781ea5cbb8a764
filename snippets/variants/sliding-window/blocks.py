"""A sliding window in blocks: each block of queries and its keys."""

# --8<-- [start:example]
import attnref
import torch
from attnref import masks, sliding_window_attention

n, d, window, rows = 1000, 16, 64, 256
generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, n, d, generator=generator)

outputs, computed = [], 0
for start in range(0, n, rows):
    stop = min(start + rows, n)
    first = max(0, start - window + 1)  # the oldest key of the block
    scores = query[start:stop] @ key[first:stop].T / d**0.5
    i = torch.arange(start, stop)[:, None]
    j = torch.arange(first, stop)
    band = (j <= i) & (j > i - window)
    weights = torch.softmax(scores.masked_fill(~band, -torch.inf), -1)
    outputs.append(weights @ value[first:stop])
    computed += scores.numel()

mask = masks.sliding_window(n, window=window, is_causal=True)
expected = attnref.scaled_dot_product_attention(
    query, key, value, mask.dense()
)
ours = sliding_window_attention(
    query, key, value, window=window, is_causal=True
)
for name, output in (("by hand", torch.cat(outputs)), ("attnref", ours)):
    same = torch.allclose(output, expected, rtol=0, atol=1e-5)
    print(f"{name}: same as the definition: {same}")
print(f"pairs: {mask.count()} in the window")
print(f"       {computed} in the blocks, {n * n} in the whole table")
# --8<-- [end:example]
