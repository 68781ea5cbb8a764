"""Differential attention: what its weights are, and where its outputs lie."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.differential import differential_attention

n, d, factor = 6, 8, 0.5
generator = torch.Generator().manual_seed(4)
query, key = 2 * torch.randn(2, n, 2 * d, generator=generator)
value = torch.randn(n, 3, generator=generator)

weights = differential_attention(query, key, torch.eye(n), factor)
output = differential_attention(query, key, value, factor)
whole = attnref.differential_attention(query, key, value, factor)
torch.testing.assert_close(output, whole)

print("rows sum to:", [round(total, 3) for total in weights.sum(-1).tolist()])
print("least weight:", round(weights.min().item(), 3))
beyond = (output > value.amax(0)) | (output < value.amin(0))
print("rows that leave the values:", int(beyond.any(-1).sum()), "of", n)
# --8<-- [end:example]
