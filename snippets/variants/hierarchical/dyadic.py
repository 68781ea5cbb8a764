"""Two ways to n log n: how many keys a query meets in each."""

# --8<-- [start:example]
import math

from attnref.masks import dyadic

print("     n  powers of two  bound  near and means  all keys, causal")
for n in (64, 256, 1024, 4096):
    pairs = int(dyadic(n).dense().sum())
    bound = math.floor(math.log2(n)) + 2
    columns = 2 * (16 + 4 * math.log2(n / 32))  # blocks of 16 with 4 means
    print(
        f"{n:6}  {pairs / n:13.2f}  {bound:5}  {columns:14.0f}"
        f"  {(n + 1) / 2:16.1f}"
    )
# --8<-- [end:example]
