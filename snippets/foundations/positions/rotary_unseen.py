"""Angles that a rotary model never met while it was trained on 4096 tokens."""

# --8<-- [start:example]
import math

trained, d_k = 4096, 128
omegas = [10_000 ** (-i / d_k) for i in range(0, d_k, 2)]  # one per pair
periods = [2 * math.pi / omega for omega in omegas]
partial = sum(period > trained for period in periods)
print(f"{partial} of {len(omegas)} pairs never made a full turn")
print(f"the slowest has the period {periods[-1]:.0f}")

for name, tokens, factor in (
    ("trained", trained, 1.0),
    ("four times as long", 4 * trained, 1.0),
    ("the same, interpolated", 4 * trained, 1 / 4),
):
    angle = tokens * factor * omegas[-1]
    print(f"{name:22}  slowest angle below {angle:.3f}")
# --8<-- [end:example]
