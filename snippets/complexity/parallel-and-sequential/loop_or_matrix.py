"""A loop over queries does the work of the product, and reads far more."""

# --8<-- [start:example]
from attnref import cost

sizes = {"m": 1024, "d_k": 64, "d_v": 64}
matrix = cost.of("plain", cost.Sizes(n=1024, **sizes))
one = cost.of("plain", cost.Sizes(n=1, **sizes))
loop = one * 1024  # one query after the other
for name, spent in {"matrix form": matrix, "loop": loop}.items():
    print(
        f"{name:11}  {spent.operations.total / 1e6:.1f} million operations  "
        f"{spent.bytes_moved / 2**20:5.1f} MiB moved  "
        f"{spent.intensity:4.1f} operations per byte"
    )
# --8<-- [end:example]
