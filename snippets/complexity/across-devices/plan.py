"""How long one layer takes on many devices, by the links between them."""

# --8<-- [start:example]
import torch
from attnref import cost

LINKS = {
    "NVLink": cost.Link(450e9, latency=3.4e-6),
    "InfiniBand": cost.Link(50e9, latency=14e-6),
    "Ethernet": cost.Link(12.5e9, latency=14e-6),
}
H100 = {"operations_per_second": 989e12, "is_causal": True}
MILLION = 2**20


def layer(n):
    """32 heads of width 128 share 8 heads of keys and values."""
    heads = {"d_k": 128, "d_v": 128, "num_heads": 32, "num_kv_heads": 8}
    return cost.Sizes(n=n, m=n, **heads, dtype=torch.bfloat16)


print("messages hide from so many tokens per device on")
for name, link in LINKS.items():
    tokens = cost.hiding_length(layer(1), link, **H100)
    print(f"  {name:10}{tokens:6.0f}")

print("\nseconds of a layer: computing alone, and over each link")
print("      devices      each     alone", end="")
print("".join(f"{name:>11}" for name in LINKS))
for n in (MILLION, 100 * MILLION):
    for devices in (8, 64, 1024, 16384):
        times = [
            cost.mesh_time(layer(n), ranks=devices, ring_link=link, **H100)
            for link in LINKS.values()
        ]
        shown = [one.seconds for one in times]
        print(f"{n // MILLION:3}M {devices:8} {n // devices:9}", end="")
        print(f"{times[0].compute:10.3f}", end="")
        print("".join(f"{seconds:11.3f}" for seconds in shown))

print("\nhow much longer contiguous parts take, over InfiniBand")
for n in (MILLION, 100 * MILLION):
    for devices in (8, 64, 1024, 16384):
        zigzag, contiguous = [
            cost.mesh_time(
                layer(n),
                ranks=devices,
                ring_link=LINKS["InfiniBand"],
                layout=layout,
                **H100,
            ).seconds
            for layout in ("zigzag", "contiguous")
        ]
        print(f"{n // MILLION:3}M {devices:8}{contiguous / zigzag:6.2f}")
# --8<-- [end:example]
