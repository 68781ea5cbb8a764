"""NaN in a place that nobody may look at, and where it ends up."""

# --8<-- [start:example]
import attnref
import torch
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, 5, 4, generator=generator)
value[4] = torch.nan  # a place that nobody has written yet
may = torch.ones(5, 5, dtype=torch.bool)
may[:, 4] = False  # and that nobody may look at

written = torch.arange(5) < 4
fixed = value.masked_fill(~written[:, None], 0.0)
for name, attend, v in (
    ("PyTorch", F.scaled_dot_product_attention, value),
    ("PyTorch, zeros there", F.scaled_dot_product_attention, fixed),
    ("attnref", attnref.scaled_dot_product_attention, value),
):
    rows = attend(query, key, v, may).isnan().any(-1).sum()
    print(f"{name:21} rows with NaN: {rows} of 5")
# --8<-- [end:example]
