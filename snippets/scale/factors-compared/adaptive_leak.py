"""A factor taken from the whole sequence tells the first rows of the last."""

# --8<-- [start:example]
import attnref
import torch
from attnref import adaptive_scaling, scaling

n, d_k = 8, 16
generator = torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, n, d_k, generator=generator)
changed = k.clone()
changed[-1] *= 5  # only the last key

factors = {
    "1/sqrt(d_k)": lambda q, k: d_k**-0.5,
    "log of own length": lambda q, k: scaling.log_length(
        d_k, torch.arange(1, n + 1)
    ),
    "from variance": adaptive_scaling.from_variance,
    "from the past": adaptive_scaling.from_past,
}
for name, factor in factors.items():
    before, after = (
        attnref.scaled_dot_product_attention(
            scaling.scale_query(q, factor(q, key)),
            key,
            v,
            is_causal=True,
            scale=1.0,
        )
        for key in (k, changed)
    )
    moved = (after - before)[1:-1].abs().amax(-1)  # rows 2 to n - 1
    print(f"{name:17}  rows 2 to {n - 1} moved by {moved.max():.2f}")
# --8<-- [end:example]
