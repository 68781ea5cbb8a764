"""Four queries of one key head: the same numbers, read once or four times."""

# --8<-- [start:example]
import torch
from torch.nn.functional import scaled_dot_product_attention

heads, key_heads, m, d = 8, 2, 4096, 64
group = heads // key_heads
generator = torch.Generator().manual_seed(0)
query = torch.randn(1, heads, 1, d, generator=generator)
key, value = torch.randn(2, 1, key_heads, m, d, generator=generator)

repeated = scaled_dot_product_attention(
    query,
    key.repeat_interleave(group, 1),
    value.repeat_interleave(group, 1),
)
stacked = scaled_dot_product_attention(
    query.view(1, key_heads, group, d),  # heads become queries
    key,
    value,
).view(1, heads, 1, d)

same = torch.allclose(repeated, stacked, rtol=0, atol=1e-6)
print("same output:", same)
operations = 2 * heads * m * (d + d)
for name, read in (("repeated", heads), ("stacked", key_heads)):
    moved = read * m * (d + d) * 4  # bytes of float32
    print(f"{name:8}  {moved:9} bytes  {operations / moved:.1f} op/byte")
# --8<-- [end:example]
