"""Decode six tokens one by one, and compare with all of them at once."""

# --8<-- [start:example]
import torch
from attnref import KVCache, MultiHeadAttention
from attnref.positions import rotary

generator = torch.Generator().manual_seed(0)
double = {"generator": generator, "dtype": torch.float64}
layer = MultiHeadAttention(16, 4, rotate=rotary, **double)
words = torch.randn(6, 16, **double)

with torch.no_grad():
    whole = layer(words, is_causal=True)  # (6, 16)
    cache = KVCache()
    for t, word in enumerate(words):
        row = layer(word[None], is_causal=True, cache=cache)  # (1, 16)
        same = torch.allclose(row[0], whole[t], rtol=0, atol=1e-12)
        print(
            f"token {t}: 1 query, {cache.length} keys, {cache.nbytes} bytes, "
            f"row of the whole pass: {same}"
        )
# --8<-- [end:example]
