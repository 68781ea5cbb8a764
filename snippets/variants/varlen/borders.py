"""Packed sequences by their borders, and as a mask of squares."""

# --8<-- [start:example]
import attnref
import torch
from attnref import masks
from attnref.minimal.varlen import varlen_attention

generator = torch.Generator().manual_seed(0)
lengths = torch.tensor([3, 5, 5, 2])
borders = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
print("borders", borders.tolist())
query, key, value = torch.randn(3, 2, 15, 8, generator=generator)

squares = masks.packed(lengths.tolist())
minimal = varlen_attention(query, key, value, borders)
whole = attnref.varlen_attention(query, key, value, borders)
causal = attnref.varlen_attention(query, key, value, borders, is_causal=True)
for name, output, mask in (
    ("minimal", minimal, squares),
    ("attnref", whole, squares),
    ("attnref, causal", causal, squares & masks.causal(15)),
):
    expected = attnref.scaled_dot_product_attention(
        query, key, value, mask.dense()
    )
    same = torch.allclose(output, expected, rtol=0, atol=1e-6)
    print(f"{name}: same as under the mask: {same}")
# --8<-- [end:example]
