"""How many multiprocessors have work, and which tasks go first."""

# --8<-- [start:example]
import heapq
from math import ceil

PROCESSORS = 132  # multiprocessors of an H100, with one task at a time each


def busy(tasks):
    """The share of places with a task, when all take equally long."""
    rounds = ceil(tasks / PROCESSORS)
    return tasks / (rounds * PROCESSORS)


def finished(lengths):
    """When the last one ends, if each goes to the first free place."""
    free = [0] * PROCESSORS
    for length in lengths:
        heapq.heappush(free, heapq.heappop(free) + length)
    return max(free)


print("a task for each         (text, head)   and 128 rows   and 1/16 of keys")
for name, sequences, heads, n in [
    ("training, 5 × 4096    ", 5, 32, 4096),
    ("one text, 32768 tokens", 1, 16, 32768),
    ("decoding, 8 key heads ", 1, 8, 1),
]:
    whole = sequences * heads
    counts = [whole, whole * ceil(n / 128), whole * ceil(n / 128) * 16]
    print(name, *(f"{tasks:6} {busy(tasks):6.1%} " for tasks in counts))

# 8 heads of 64 tasks; the first meets one block of keys, the last meets 64.
lengths = [row for _ in range(8) for row in range(1, 65)]
print(f"causal: {sum(lengths) / PROCESSORS:.1f} blocks of keys for each place")
for name, order in {
    "head by head": lengths,
    "short rows first": sorted(lengths),
    "long rows first": sorted(lengths, reverse=True),
}.items():
    print(f"{name:16}  finished after {finished(order)}")
# --8<-- [end:example]
