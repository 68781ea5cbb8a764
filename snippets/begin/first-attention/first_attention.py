"""Five queries, seven keys, and the same answer from PyTorch."""

# --8<-- [start:example]
import attnref
import torch
from torch.nn.functional import (
    scaled_dot_product_attention as pytorch_attention,
)

generator = torch.Generator().manual_seed(0)
query = torch.randn(2, 3, 5, 8, generator=generator)  # (batch, heads, n, d_k)
key = torch.randn(2, 3, 7, 8, generator=generator)  # (batch, heads, m, d_k)
value = torch.randn(2, 3, 7, 4, generator=generator)  # (batch, heads, m, d_v)

output, weights, _ = attnref.attend(query, key, value)

print("output ", tuple(output.shape))
print("weights", tuple(weights.shape))
print(
    "each row of weights sums to 1:",
    torch.allclose(weights.sum(-1), torch.ones(2, 3, 5)),
)
expected = pytorch_attention(query, key, value)
print("PyTorch says the same:", torch.allclose(output, expected, atol=1e-6))
# --8<-- [end:example]
