"""Borders are not lengths, and a flag is not a border."""

# --8<-- [start:example]
from textwrap import fill

import attnref
import torch
from attnref import varlen_attention

generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, 10, 4, generator=generator)
try:
    varlen_attention(query, key, value, torch.tensor([3, 5, 2]))
except ValueError as error:
    print(fill(str(error), 72))

borders = torch.tensor([0, 3, 8, 10])
right = varlen_attention(query, key, value, borders, is_causal=True)
joined = attnref.scaled_dot_product_attention(
    query, key, value, is_causal=True
)
same = torch.isclose(joined, right, rtol=0, atol=1e-5).all(-1)
print("rows that one causal mask over all gets right:")
print(same.nonzero().flatten().tolist(), "of", list(range(10)))
# --8<-- [end:example]
