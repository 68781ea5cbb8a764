"""A sequence alone and in a padded batch, with the mask and without."""

# --8<-- [start:example]
import torch
from attnref.masks import padding
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

generator = torch.Generator().manual_seed(0)
lengths = [3, 5]
words = [torch.randn(n, 8, generator=generator) for n in lengths]

try:
    torch.stack(words)
except RuntimeError as error:
    print(error, "\n")

alone = F.scaled_dot_product_attention(*[words[0][None]] * 3)[0]
for longest in (5, 7):  # the same sequence, in two batches
    batch = pad_sequence([*words, torch.zeros(longest, 8)], batch_first=True)
    x = batch[:2, None]  # (b, h, n, d)
    mask = padding(lengths, longest).dense()  # (b, 1, 1, m)
    for name, attn_mask in (("no mask", None), ("mask", mask)):
        out = F.scaled_dot_product_attention(x, x, x, attn_mask=attn_mask)
        off = (out[0, 0, :3] - alone).abs().max()
        print(f"padded to {longest}, {name}: off by {off:.2f}")
# --8<-- [end:example]
