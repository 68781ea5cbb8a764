"""Two programs for one function, under the roofline of an example machine."""

# --8<-- [start:example]
import torch
from attnref import cost
from attnref.roofline import Machine

half = torch.float16
# Round numbers of no existing machine.
machine = Machine("example", {half: 1e14}, bytes_per_second=1e12)

print(f"ridge: {1e14 / machine.bytes_per_second:.0f} operations per byte")
print("    n  program  million op.  MB moved  intensity  limited by")
for n, m in [(512, 512), (2048, 2048), (8192, 8192), (1, 8192)]:
    sizes = cost.Sizes(n=n, m=m, d_k=64, d_v=64, dtype=half)
    for name, spent in {
        "plain": cost.of("plain", sizes),
        "tiles": cost.of("blockwise", sizes, block=(128, 128)),
    }.items():
        found = machine.roofline(spent, dtype=half)
        print(
            f"{n:5}  {name:7}  {spent.operations.total / 1e6:11.1f}  "
            f"{spent.bytes_moved / 1e6:8.1f}  {found.intensity:9.1f}  "
            f"{found.bound}"
        )
# --8<-- [end:example]
