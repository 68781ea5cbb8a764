"""A cache read in pieces, by the minimal function and by the whole one."""

# --8<-- [start:example]
import torch
from attnref import kv_cache_attention
from attnref.minimal.split_kv import split_kv_attention

generator = torch.Generator().manual_seed(0)
query = torch.randn(8, 1, 64, generator=generator)
keys = torch.randn(1, 10_000, 64, generator=generator)  # one key head
values = torch.randn(1, 10_000, 64, generator=generator)

output = split_kv_attention(query, keys, values, splits=4)
uncut = split_kv_attention(query, keys, values, splits=1)
options = {"enable_gqa": True, "splits": 4}
whole = kv_cache_attention(query, keys, values, **options)
for name, other in (("in one piece", uncut), ("attnref", whole)):
    print(f"{name}: same output: {torch.allclose(output, other, atol=1e-6)}")

print("numbers read from each piece:", 2 * 10_000 * 64 // 4)
print("numbers that each piece hands on:", 8 * (64 + 1))
# --8<-- [end:example]
