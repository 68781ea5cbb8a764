"""Packed sequences by their borders: with causal masks and across texts."""

# --8<-- [start:example]
import attnref
import torch
from attnref import varlen_attention

generator = torch.Generator().manual_seed(0)
lengths = torch.tensor([3, 5, 5, 2])
borders = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
print("borders", borders.tolist())
query, key, value = torch.randn(3, 2, 15, 8, generator=generator)


def alone(query, key, value, sizes, key_sizes, **options):
    parts = zip(
        query.split(sizes.tolist(), -2),
        key.split(key_sizes.tolist(), -2),
        value.split(key_sizes.tolist(), -2),
        strict=True,
    )
    attend = attnref.scaled_dot_product_attention
    return torch.cat([attend(*part, **options) for part in parts], -2)


ours = varlen_attention(query, key, value, borders, is_causal=True)
expected = alone(query, key, value, lengths, lengths, is_causal=True)
same = torch.allclose(ours, expected, rtol=0, atol=1e-6)
print("causal, each sequence as if alone:", same)

sources = torch.tensor([4, 1, 6, 7])  # e.g. the texts to translate
ends = torch.cat([sources.new_zeros(1), sources.cumsum(0)])
key, value = torch.randn(2, 2, 18, 8, generator=generator)
ours = varlen_attention(query, key, value, borders, cu_seqlens_key=ends)
expected = alone(query, key, value, lengths, sources)
same = torch.allclose(ours, expected, rtol=0, atol=1e-6)
print("cross, each sequence and its source:", same)
# --8<-- [end:example]
