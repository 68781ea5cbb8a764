"""What the checker says of blocks of one pair each, laid out by a mask."""

# --8<-- [start:example]
import torch
from attnref import block_sparse_attention
from attnref.conformance import PROPERTIES, check


def attention(query, key, value, attn_mask=None, scale=None, enable_gqa=False):
    if attn_mask is None:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2]).bool()
    if attn_mask.dtype != torch.bool:
        raise TypeError(f"attn_mask: expected bool, got {attn_mask.dtype}")
    return block_sparse_attention(
        query,
        key,
        value,
        attn_mask,
        block_size=1,
        scale=scale,
        enable_gqa=enable_gqa,
    )


DTYPES = ("float64", "float32", "bfloat16", "float16")
# Blocks of one pair are too slow for the property of memory.
ASKED = [name for name in PROPERTIES if name != "memory_growth"]
verdicts = {}
for dtype in DTYPES:
    report = check(attention, only=ASKED, dtype=dtype, limit=None)
    for result in report.results:
        verdicts.setdefault(result.property, []).append(result.verdict.value)

print(" " * 24, *(f"{dtype:12}" for dtype in DTYPES))
for name, said in verdicts.items():
    print(f"{name:24}", *(f"{verdict:12}" for verdict in said))
# --8<-- [end:example]
