"""How much a group of heads helps, and when it does not."""

# --8<-- [start:example]
import torch
from attnref import cost

nvlink = cost.Link(450e9, latency=3.4e-6)  # in a row, which divides the heads
infiniband = cost.Link(50e9, latency=14e-6)  # along a column, which is a ring
million = 2**20

print("seconds by the size of a row, and the share of computing in them")
print("      devices", *(f"{size:12}" for size in (1, 2, 4, 8)))
for n, devices in (
    (million, 64),
    (million, 1024),
    (million, 16384),
    (100 * million, 16384),
):
    sizes = cost.Sizes(
        n=n,
        m=n,
        d_k=128,
        d_v=128,
        num_heads=32,
        num_kv_heads=8,
        dtype=torch.bfloat16,
    )
    print(f"{n // million:3}M {devices:8}", end="")
    for row in (1, 2, 4, 8):
        time = cost.mesh_time(
            sizes,
            ranks=devices,
            heads=row,
            ring_link=infiniband,
            heads_link=nvlink,
            operations_per_second=989e12,
            is_causal=True,
        )
        print(f"{time.seconds:8.4f} {time.busy:4.0%}", end="")
    print()
# --8<-- [end:example]
