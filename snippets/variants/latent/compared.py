"""A step of decoding with shared heads and with latents, on an H100."""

# --8<-- [start:example]
import torch
from attnref import cost, roofline

m, h, d, d_c, d_r = 32768, 128, 128, 512, 64
bf16 = torch.bfloat16
half = {"n": 1, "m": m, "d_k": d, "d_v": d, "num_heads": h, "dtype": bf16}
h100 = roofline.Machine("an H100", {bf16: 989e12}, bytes_per_second=3.35e12)

kept = {
    f"{heads} key heads": cost.Sizes(**half, num_kv_heads=heads)
    for heads in (128, 8, 1)
}
rows = {name: (sizes, cost.of("fused", sizes)) for name, sizes in kept.items()}
alone = cost.Sizes(**half | {"d_k": d_c + d_r, "d_v": 0, "num_heads": 1})
for name, absorb in (("latents, read out", False), ("absorbed", True)):
    made = cost.Sizes(**half)
    spent = cost.of(
        "latent", made, latent_dim=d_c, rotary_dim=d_r, absorb=absorb
    )
    rows[name] = alone, spent

print("                   cache  million        MB  operations")
print("                      MB      ops     moved    per byte      µs")
for name, (sizes, spent) in rows.items():
    line = h100.roofline(spent, dtype=bf16)
    print(
        f"{name:17} {sizes.cache_bytes / 1e6:7.1f}"
        f" {spent.operations.total / 1e6:8.0f}"
        f" {spent.bytes_moved / 1e6:9.1f} {line.intensity:11.1f}"
        f" {1e6 * line.seconds:7.1f}  {line.bound}"
    )
# --8<-- [end:example]
