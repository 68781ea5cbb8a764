"""A window of three keys, counted in two ways."""

# --8<-- [start:example]
import torch
from attnref import Mask
from attnref.masks import sliding_window

window = 3
right = sliding_window(6, window=window, is_causal=True)  # its own key counts
wrong = Mask((6, 6), lambda i, j: (j <= i) & (i - j <= window))

for lines in zip(
    right.picture().splitlines(), wrong.picture().splitlines(), strict=True
):
    print("  ".join(lines))
print("keys seen by the last query:", end=" ")
print(*(int(mask.dense()[-1].sum()) for mask in (right, wrong)))
cache = torch.arange(6)[-window:]  # a cache that keeps the last three keys
seen = wrong.dense()[-1].nonzero().flatten()
print("in the cache:", cache.tolist(), " asked for:", seen.tolist())
# --8<-- [end:example]
