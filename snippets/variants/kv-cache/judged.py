"""What the checker says of decoding, one query at a time."""

# --8<-- [start:example]
import torch
from attnref import kv_cache_attention
from attnref.conformance import check


def attention(
    query, key, value, is_causal=False, scale=None, enable_gqa=False
):
    steps = []
    for i in range(query.shape[-2]):
        seen = slice(0, i + 1 if is_causal else None)
        step = kv_cache_attention(
            query[..., i : i + 1, :],
            key[..., seen, :],
            value[..., seen, :],
            scale=scale,
            enable_gqa=enable_gqa,
        )
        steps.append(step)
    return torch.cat(steps, dim=-2)


DTYPES = ("float64", "float32", "bfloat16", "float16")
verdicts = {}
for dtype in DTYPES:
    for result in check(attention, dtype=dtype, limit=None).results:
        verdicts.setdefault(result.property, []).append(result.verdict.value)

print(" " * 24, *(f"{dtype:12}" for dtype in DTYPES))
for name, said in verdicts.items():
    print(f"{name:24}", *(f"{verdict:12}" for verdict in said))
# --8<-- [end:example]
