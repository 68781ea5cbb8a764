"""Least times of a published measurement, by published speeds."""

# --8<-- [start:example]
import torch
from attnref import cost
from attnref.roofline import Machine

half = torch.float16
a100 = Machine("A100", {half: 312e12}, bytes_per_second=2.0e12)
sizes = cost.Sizes(
    n=1024, m=1024, d_k=64, d_v=64, batch=64, num_heads=16, dtype=half
)
tile = {"block": (128, 128)}
programs = {
    "plain": cost.of("plain", sizes, masked=True)
    + cost.of("plain", sizes, masked=True, backward=True),
    "tiles": cost.of("blockwise", sizes, **tile, return_lse=True)
    + cost.of("blockwise", sizes, **tile, backward=True),
}
for name, spent in programs.items():
    found = a100.roofline(spent, dtype=half)
    print(
        f"{name}: {spent.bytes_moved / 1e9:.1f} GB moved, "
        f"at least {found.seconds * 1e3:.1f} ms, {found.bound}-bound"
    )
print(f"ridge: {found.balance:.0f} operations per byte")
# --8<-- [end:example]
