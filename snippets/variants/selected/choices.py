"""Three ways to choose keys, and the pairs that they leave."""

# --8<-- [start:example]
import torch
from attnref import indexer_choice, moba_choice, native_sparse_choice

n, d, h_index = 16, 8, 2
generator = torch.Generator().manual_seed(3)
query, key = (torch.randn(n, d, generator=generator) for _ in range(2))
index_query = torch.randn(h_index, n, d, generator=generator)
index_key = torch.randn(n, d, generator=generator)
index_weights = torch.rand(h_index, n, generator=generator)

blocks = {"block_size": 4, "num_blocks": 2}
index = (index_query, index_key, index_weights)
choices = {
    "MoBA": moba_choice(query, key, **blocks, is_causal=True),
    "indexer": indexer_choice(*index, num_keys=6, is_causal=True),
    "NSA": native_sparse_choice(query, key, block_size=2, num_blocks=4),
}
pictures = [mask.picture().splitlines() for mask in choices.values()]
print("   ".join(f"{name:16}" for name in choices))
for rows in zip(*pictures, strict=True):
    print("   ".join(rows))
pairs = [f"{mask.count()} of 136 pairs" for mask in choices.values()]
print("   ".join(pairs))
# --8<-- [end:example]
