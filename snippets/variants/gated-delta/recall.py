"""How many values can be read back: a sum, a corrected state, and a cache."""

# --8<-- [start:example]
import torch
from attnref import gated_delta_attention, scaled_dot_product_attention

d = 64
generator = torch.Generator().manual_seed(0)

print(" keys    added    beta 1  softmax")
for m in (8, 16, 32, 64, 128, 256):
    key = torch.nn.functional.normalize(
        torch.randn(m, d, generator=generator), dim=-1
    )
    value = torch.randn(m, d, generator=generator)
    # Each key is asked again at the end, with a rate of 0: nothing more
    # is written.
    asked = torch.cat([key, key])
    values = torch.cat([value, torch.zeros(m, d)])
    write = torch.cat([torch.ones(m), torch.zeros(m)])
    read = {
        "added": gated_delta_attention(
            asked, write[:, None] * asked, values, scale=1.0
        )[m:],
        "beta 1": gated_delta_attention(
            asked, asked, values, beta=write, scale=1.0
        )[m:],
        "softmax": scaled_dot_product_attention(key, key, value, scale=30.0),
    }
    errors = [
        ((said - value).norm() / value.norm()).item() for said in read.values()
    ]
    print(f"{m:5}" + "".join(f"{error:9.2f}" for error in errors))
# --8<-- [end:example]
