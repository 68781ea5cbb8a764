"""Blockwise attention in its shortest form, and a tempting wrong one."""

# --8<-- [start:example]
import attnref
import torch

n, m, d, width = 6, 100, 8, 32
generator = torch.Generator().manual_seed(0)
query = 3 * torch.randn(n, d, generator=generator)
key, value = torch.randn(2, m, d, generator=generator)

maximum = torch.full((n, 1), -torch.inf)
total = torch.zeros(n, 1)
sums = torch.zeros(n, d)
averages = []
for k, v in zip(key.split(width), value.split(width), strict=True):
    scores = query @ k.T / d**0.5  # (n, width)
    largest = torch.maximum(maximum, scores.amax(-1, keepdim=True))
    powers = torch.exp(scores - largest)
    rescale = torch.exp(maximum - largest)
    total = rescale * total + powers.sum(-1, keepdim=True)
    sums = rescale * sums + powers @ v
    maximum = largest
    averages.append(torch.softmax(scores, -1) @ v)  # of this block alone

expected = attnref.scaled_dot_product_attention(query, key, value)
wrong = torch.stack(averages).mean(0)
for name, output in (
    ("carried from block to block", sums / total),
    ("mean of the blocks' outputs", wrong),
):
    same = torch.allclose(output, expected, rtol=0, atol=1e-5)
    print(f"{name}: {same}")
print(f"the mean is off by up to {(wrong - expected).abs().max():.2f}")
# --8<-- [end:example]
