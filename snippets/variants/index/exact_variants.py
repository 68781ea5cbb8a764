"""Five exact methods, each against the definition under its mask."""

# --8<-- [start:example]
import attnref
import torch
from attnref import masks
from attnref.variants.block_sparse import block_sparse_attention
from attnref.variants.blockwise import blockwise_attention
from attnref.variants.kv_cache import kv_cache_attention
from attnref.variants.sliding_window import sliding_window_attention
from attnref.variants.varlen import varlen_attention

n, generator = 1100, torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, 2, n, 16, generator=generator)  # two heads
newest = q[:, -3:]  # three tokens of which the cache knows the keys
layout = torch.rand(11, 11, generator=generator) < 0.3
layout.fill_diagonal_(True)
causal = masks.causal(n)
newest_mask = masks.causal(3, n, alignment="bottom-right")
blocks = masks.block_layout(n, layout=layout, block_size=100)

print("method          pairs allowed  same as the definition")
for name, output, query, mask in (
    ("blockwise", blockwise_attention(q, k, v, causal), q, causal),
    (
        "sliding_window",
        sliding_window_attention(q, k, v, window=64, is_causal=True),
        q,
        masks.sliding_window(n, window=64, is_causal=True),
    ),
    (
        "block_sparse",
        block_sparse_attention(q, k, v, layout, block_size=100),
        q,
        blocks,
    ),
    (
        "varlen",
        varlen_attention(q, k, v, torch.tensor([0, 600, 800, n])),
        q,
        masks.packed([600, 200, 300]),
    ),
    ("kv_cache", kv_cache_attention(newest, k, v), newest, newest_mask),
):
    expected = attnref.scaled_dot_product_attention(query, k, v, mask.dense())
    same = torch.allclose(output, expected, rtol=0, atol=1e-5)
    print(f"{name:14}  {mask.count():13}  {same}")
# --8<-- [end:example]
