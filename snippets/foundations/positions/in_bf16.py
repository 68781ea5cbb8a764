"""Counting in bfloat16."""

# --8<-- [start:example]
import torch
from attnref.positions import sinusoidal

print(
    [int(torch.tensor(t).bfloat16()) for t in (255, 256, 257, 258, 259, 4095)]
)
places = torch.arange(4096).bfloat16()
print("different positions below 4096:", len(places.unique()))

length, d = 8192, 512
omegas = 10_000 ** (-torch.arange(0, d, 2).double() / d)
angles = torch.arange(length).bfloat16()[:, None] * omegas.bfloat16()
early = torch.cat([angles.sin(), angles.cos()], dim=-1)
late = sinusoidal(length, d, dtype=torch.bfloat16)  # rounded once, at the end
for name, table in (("rounded first", early), ("rounded last", late)):
    rows = len(torch.unique(table.float(), dim=0))
    print(f"{name:13}: {rows} different rows of {length}")
# --8<-- [end:example]
