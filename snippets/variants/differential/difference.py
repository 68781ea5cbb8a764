"""Differential attention beside the two attentions that it is made of."""

# --8<-- [start:example]
import torch
from attnref import attention_weights, differential_attention

n, d, factor = 6, 8, 0.5
generator = torch.Generator().manual_seed(4)
query, key = 2 * torch.randn(2, n, 2 * d, generator=generator)
value = torch.randn(n, 3, generator=generator)

first, second = (
    attention_weights(q, k)
    for q, k in zip(query.chunk(2, -1), key.chunk(2, -1), strict=True)
)
weights = first - factor * second
output = differential_attention(query, key, value, factor)
torch.testing.assert_close(output, weights @ value)

print("rows sum to:", [round(total, 3) for total in weights.sum(-1).tolist()])
print("least weight:", round(weights.min().item(), 3))
beyond = (output > value.amax(0)) | (output < value.amin(0))
print("rows that leave the values:", int(beyond.any(-1).sum()), "of", n)
# --8<-- [end:example]
