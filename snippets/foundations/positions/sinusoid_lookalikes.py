"""Which other position looks most like a given one, in a sinusoidal table?"""

# --8<-- [start:example]
import math

import torch

furthest = 100_000
steps = torch.arange(1, furthest + 1, dtype=torch.float64)

print("   d  longest period   at 1   nearest from 2 on")
for d in (2, 4, 8, 64, 512):
    squares = torch.zeros(furthest, dtype=torch.float64)
    omegas = [10_000 ** (-i / d) for i in range(0, d, 2)]
    for omega in omegas:
        squares += 2 * (1 - torch.cos(omega * steps))
    distance = squares.sqrt()  # between positions t and t + step, for every t
    nearest = 1 + int(distance[1:].argmin())  # steps[nearest] is the step
    period = 2 * math.pi / omegas[-1]
    print(
        f"{d:4}  {period:14,.1f}  {distance[0]:5.2f}"
        f"  {distance[nearest]:8.5f} at {int(steps[nearest]):6}"
    )
# --8<-- [end:example]
