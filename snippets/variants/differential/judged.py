"""What the checker says of two equal maps, of which one half is taken away."""

# --8<-- [start:example]
import torch
from attnref import differential_attention
from attnref.conformance import PROPERTIES, check


def attention(
    query,
    key,
    value,
    attn_mask=None,
    is_causal=False,
    scale=None,
    enable_gqa=False,
):
    query, key = (torch.cat([x, x], dim=-1) for x in (query, key))
    half = differential_attention(
        query,
        key,
        value,
        attn_mask,
        lambd=0.5,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )
    return 2 * half


DTYPES = ("float64", "float32", "bfloat16", "float16")
verdicts = {}
for dtype in DTYPES:
    report = check(attention, only=list(PROPERTIES), dtype=dtype, limit=None)
    for result in report.results:
        verdicts.setdefault(result.property, []).append(result.verdict.value)

print(" " * 24, *(f"{dtype:12}" for dtype in DTYPES))
for name, said in verdicts.items():
    print(f"{name:24}", *(f"{verdict:12}" for verdict in said))
# --8<-- [end:example]
