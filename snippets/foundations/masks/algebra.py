"""Masks combine: & both allow, | either allows, ~ the opposite."""

# --8<-- [start:example]
import torch
from attnref import masks

causal, window = (
    masks.causal(6),
    masks.sliding_window(6, window=2, is_causal=True),
)
two_sided = masks.sliding_window(6, window=3)
combined = {
    "a": causal & masks.packed([2, 4]),
    "b": two_sided | masks.global_tokens(6, positions=[0]),
    "c": causal & ~window,
    "d": ~(window | ~causal),
}

print("  ".join(f"{name:6}" for name in combined))
for lines in zip(
    *(mask.picture().splitlines() for mask in combined.values()), strict=True
):
    print("  ".join(lines))
print("c is d:", torch.equal(combined["c"].dense(), combined["d"].dense()))

huge = masks.causal(2**20)  # 2**40 pairs, of which none is computed yet
print(huge.block(slice(999, 1001), slice(998, 1002)).int().tolist())
# --8<-- [end:example]
