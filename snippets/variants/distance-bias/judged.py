"""What the checker says where the bias is 0 for all distances."""

# --8<-- [start:example]
from attnref import distance_bias_attention
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
    distances = max(query.shape[-2] + key.shape[-2] - 1, 0)
    return distance_bias_attention(
        query,
        key,
        value,
        attn_mask,
        bias=query.new_zeros(distances),
        is_causal=is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )


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
