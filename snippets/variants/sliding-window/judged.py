"""What the checker says of a window, from a wide one to one of a few keys."""

# --8<-- [start:example]
from attnref import sliding_window_attention
from attnref.conformance import check


def attention(
    query,
    key,
    value,
    is_causal=False,
    scale=None,
    enable_gqa=False,
    window=None,
):
    if window is None:  # wide enough for all keys
        window = 2 * max(query.shape[-2], 1) - 1
    else:  # the last keys
        is_causal = True
    return sliding_window_attention(
        query,
        key,
        value,
        window=window,
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
