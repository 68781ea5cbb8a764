"""What the checker says of variable length, with a single sequence."""

# --8<-- [start:example]
import torch
from attnref import varlen_attention
from attnref.conformance import check


def attention(
    query, key, value, is_causal=False, scale=None, enable_gqa=False
):
    borders, others = (torch.tensor([0, x.shape[-2]]) for x in (query, key))
    return varlen_attention(
        query,
        key,
        value,
        borders,
        cu_seqlens_key=others,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )


DTYPES = ("float64", "float32", "bfloat16", "float16")
verdicts = {}
for dtype in DTYPES:
    for result in check(attention, dtype=dtype, limit=None).results:
        verdicts.setdefault(result.property, []).append(result.verdict.value)

print(" " * 24, *(f"{dtype:12}" for dtype in DTYPES))
for name, said in verdicts.items():
    print(f"{name:24}", *(f"{verdict:12}" for verdict in said))
# --8<-- [end:example]
