"""Blockwise attention on one screen, and a tempting wrong one."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.blockwise import blockwise_attention

n, m, d, width = 6, 100, 8, 32
generator = torch.Generator().manual_seed(0)
query = 3 * torch.randn(n, d, generator=generator)
key, value = torch.randn(2, m, d, generator=generator)

blocks = zip(key.split(width), value.split(width), strict=True)
alone = [attnref.scaled_dot_product_attention(query, k, v) for k, v in blocks]

expected = attnref.scaled_dot_product_attention(query, key, value)
wrong = torch.stack(alone).mean(0)
for name, output in (
    (
        "carried from block to block",
        blockwise_attention(query, key, value, width),
    ),
    ("mean of the blocks' outputs", wrong),
):
    same = torch.allclose(output, expected, rtol=0, atol=1e-5)
    print(f"{name}: {same}")
print(f"the mean is off by up to {(wrong - expected).abs().max():.2f}")
# --8<-- [end:example]
