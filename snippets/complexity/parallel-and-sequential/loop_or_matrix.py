"""A loop over queries does the work of the product, and reads far more."""

# --8<-- [start:example]
from attnref.cost import Sizes, plain

sizes = {"m": 1024, "d_k": 64, "d_v": 64}
matrix = plain(Sizes(n=1024, **sizes))
loop = plain(Sizes(n=1, **sizes)) * 1024  # one query after the other
for name, cost in {"matrix form": matrix, "loop": loop}.items():
    print(
        f"{name:11}  {cost.operations.total / 1e6:.1f} million operations  "
        f"{cost.bytes_moved / 2**20:5.1f} MiB moved  "
        f"{cost.intensity:4.1f} operations per byte"
    )
# --8<-- [end:example]
