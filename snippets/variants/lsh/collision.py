"""How often two vectors share a hash, against the angle between them."""

# --8<-- [start:example]
import math

import torch
from attnref import random_rotations

draws = 20_000
generator = torch.Generator().manual_seed(0)
print("angle  2 buckets  1 - angle/180  8 buckets  32 buckets")
for degrees in (0, 15, 45, 90, 135):
    angle = math.radians(degrees)
    pair = torch.zeros(2, 32)
    pair[0, 0] = 1
    pair[1, 0], pair[1, 1] = math.cos(angle), math.sin(angle)
    shares = []
    for buckets in (2, 8, 32):
        rotations = random_rotations(
            draws, 32, num_buckets=buckets, generator=generator
        )
        x = pair @ rotations  # (draws, 2, buckets / 2)
        hashes = torch.cat([x, -x], -1).argmax(-1)  # (draws, 2)
        shares.append((hashes[:, 0] == hashes[:, 1]).float().mean().item())
    two, eight, many = shares
    print(
        f"{degrees:5}  {two:9.2f}  {1 - degrees / 180:13.2f}"
        f"  {eight:9.2f}  {many:10.2f}"
    )
# --8<-- [end:example]
