"""A softmax without a dimension takes the first one, which is the heads."""

# --8<-- [start:example]
import textwrap
import warnings

import torch
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
scores = torch.randn(2, 3, 5, generator=generator)  # (h, n, m)

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    wrong = F.softmax(scores)
print(textwrap.fill(str(caught[0].message), 72))

for name, weights in (
    ("no dim", wrong),
    ("dim=-2", F.softmax(scores, dim=-2)),
    ("dim=-1", F.softmax(scores, dim=-1)),
):
    ones = [
        axis
        for axis, what in enumerate(("heads", "queries", "keys"))
        if torch.allclose(weights.sum(axis), torch.tensor(1.0))
    ]
    first = weights[0, 0].sum()
    print(
        f"{name}: 1 along axis {ones[0]}, row 0 of head 0 sums to {first:.2f}"
    )
# --8<-- [end:example]
