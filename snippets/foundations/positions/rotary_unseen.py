"""Angles that a rotary model never met while it was trained on 4096 tokens."""

# --8<-- [start:example]
import math

from attnref.positions import frequencies

trained = 4096
omegas = frequencies(128)  # of the 64 pairs of a head
periods = 2 * math.pi / omegas
partial = int((periods > trained).sum())
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
