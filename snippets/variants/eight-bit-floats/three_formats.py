"""The numbers of three formats, and their largest relative error."""

# --8<-- [start:example]
import torch
from attnref import QuantizedTokens

one = torch.tensor([[1.0]])
formats = {
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e2m1": torch.float4_e2m1fn_x2,
}
print("format  numbers  largest   smallest  worst relative error")
for name, dtype in formats.items():
    codes = torch.arange(256, dtype=torch.uint8)[:, None].view(dtype)
    found = QuantizedTokens(codes, one).dequantize()
    found = found[found.isfinite() & (found > 0)].unique()
    # Half of the gap, at the middle between two neighbours above the smallest.
    below, above = found[found >= 1][:-1], found[found >= 1][1:]
    worst = ((above - below) / (above + below)).max()
    print(
        f"{name:6}  {len(found):7}  {found[-1]:7.0f}  {found[0]:9.1e}"
        f"  {worst:.4f} = 1/{1 / worst:.0f}"
    )
print("e2m1:", *found.tolist())
# --8<-- [end:example]
