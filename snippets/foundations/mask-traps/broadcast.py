"""A padding mask of shape (b, m), where b happens to be n."""

# --8<-- [start:example]
import textwrap

import attnref
import torch
from attnref.masks import padding

lengths = [1, 2, 3]  # three sequences, padded to three: b = n = m
query = key = torch.zeros(3, 2, 3, 4)  # (b, h, n, d): equal scores everywhere

right = padding(lengths, 3).dense()  # (b, 1, 1, m)
wrong = right[:, 0, 0]  # (b, m), read by broadcasting as (n, m)
behind = ~right.expand(3, 2, 3, 3)

for name, mask in (("(b, 1, 1, m)", right), ("(b, m)", wrong)):
    weights = attnref.attention_weights(query, key, mask)
    share = (weights * behind).sum(-1).mean()
    print(f"{name:12}  weight on padding {share:4.0%}")

try:
    attnref.attention_weights(query[:, :, :2], key, wrong)
except ValueError as error:
    print("\nwith two queries:")
    print(textwrap.fill(str(error), 72))
# --8<-- [end:example]
