"""A cache read in pieces, by hand and by the function."""

# --8<-- [start:example]
import functools

import torch
from attnref import kv_cache_attention, softmax

generator = torch.Generator().manual_seed(0)
query = torch.randn(8, 1, 64, generator=generator)
keys = torch.randn(1, 10_000, 64, generator=generator)  # one key head
values = torch.randn(1, 10_000, 64, generator=generator)

parts = []
pieces = zip(keys.split(2500, 1), values.split(2500, 1), strict=True)
for key, value in pieces:  # each could be on a processor of its own
    scores = query @ key.mT / 8
    parts.append(softmax.partial_attention(scores, value))
by_hand = functools.reduce(softmax.merge, parts).output

options = {"enable_gqa": True, "splits": 4}
output = kv_cache_attention(query, keys, values, **options)
torch.testing.assert_close(output, by_hand)

sent = sum(tensor.numel() for tensor in parts[0])
print("numbers read from each piece:", 2 * key.numel())
print("numbers that each piece hands on:", sent)
# --8<-- [end:example]
