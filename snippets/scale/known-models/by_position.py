"""Llama 4 multiplies queries by a slow function of their position."""

# --8<-- [start:example]
import math

for t in (0, 8190, 8191, 100_000, 1_000_000, 10_000_000):
    times = 1 + 0.1 * math.log((t + 1) // 8192 + 1)
    print(f"position {t:8}: times {times:.3f}")
# --8<-- [end:example]
