"""What the checker says of blockwise attention, in each dtype."""

# --8<-- [start:example]
from attnref import blockwise_attention
from attnref.conformance import check

DTYPES = ("float64", "float32", "bfloat16", "float16")
verdicts = {}
for dtype in DTYPES:
    for result in check(blockwise_attention, dtype=dtype, limit=None).results:
        verdicts.setdefault(result.property, []).append(result.verdict.value)

print(" " * 24, *(f"{dtype:12}" for dtype in DTYPES))
for name, said in verdicts.items():
    print(f"{name:24}", *(f"{verdict:12}" for verdict in said))
# --8<-- [end:example]
