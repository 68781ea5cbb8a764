"""Padding on the left moves the words, unless their positions are counted."""

# --8<-- [start:example]
import torch
from attnref.positions import rotary, sinusoidal
from torch.nn import functional as F

n, m, d = 4, 7, 16  # four words; three places of padding before them
generator = torch.Generator().manual_seed(0)
words = torch.randn(n, d, generator=generator)
padded = torch.cat([torch.zeros(m - n, d), words])
keep = torch.arange(m) >= m - n  # True = a word
table = sinusoidal(m, d)


def attend(x, keep, turn=False):
    mask = keep & torch.ones(len(x), len(x), dtype=torch.bool).tril()
    query = rotary(x) if turn else x
    return F.scaled_dot_product_attention(query, query, x, attn_mask=mask)


alone = attend(words + table[:n], keep[-n:])
counted = (keep.cumsum(0) - 1).clamp(min=0)
print("positions counted:", counted.tolist())
for name, x in (
    ("by place in the row", padded + table),
    ("by words", padded + table[counted]),
):
    off = (attend(x, keep)[-n:] - alone).abs().max()
    print(f"{name:19}  off by {off:.2f}")

turned = attend(padded, keep, turn=True)[-n:]
off = (turned - attend(words, keep[-n:], turn=True)).abs().max()
print(f"rotary, by place     off by {off:.2f}")
# --8<-- [end:example]
