"""Six masks for six tokens: # may attend, . may not."""

# --8<-- [start:example]
from attnref import masks

patterns = {
    "causal": masks.causal(6),
    "padding": masks.padding([4], 6).expand((1, 1, 6, 6)),
    "window": masks.sliding_window(6, window=3, is_causal=True),
    "two-sided": masks.sliding_window(6, window=3),
    "prefix": masks.prefix_lm(6, prefix=3),
    "packed": masks.packed([2, 4]),
}

print("  ".join(f"{name:9}" for name in patterns))
for lines in zip(
    *(mask.picture().splitlines() for mask in patterns.values()), strict=True
):
    print("  ".join(f"{line:9}" for line in lines))
# --8<-- [end:example]
