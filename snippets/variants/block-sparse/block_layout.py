"""A layout of blocks: BigBird's, by gathering the blocks that are seen."""

# --8<-- [start:example]
import attnref
import torch
from attnref import masks
from attnref.minimal.block_sparse import block_sparse_attention

n, size, d = 1024, 64, 16
generator = torch.Generator().manual_seed(0)
mask = masks.bigbird(
    n,
    block_size=size,
    window_blocks=3,
    global_blocks=1,
    random_blocks=2,
    generator=generator,
)
layout = mask.block_summary(size) > 0  # (16, 16)
query, key, value = torch.randn(3, n, d, generator=generator)

minimal = block_sparse_attention(query, key, value, layout, size)
whole = attnref.block_sparse_attention(
    query, key, value, layout, block_size=size
)
expected = attnref.scaled_dot_product_attention(
    query, key, value, mask.dense()
)
for name, output in (("minimal", minimal), ("attnref", whole)):
    same = torch.allclose(output, expected, rtol=0, atol=1e-5)
    print(f"{name}: same as the definition: {same}")
print(f"{layout.sum()} of {layout.numel()} blocks computed")
print("blocks seen by rows 0, 1, 8:", layout.sum(1)[[0, 1, 8]].tolist())
# --8<-- [end:example]
