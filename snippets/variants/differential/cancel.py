"""One key among a thousand: what the second map takes away."""

# --8<-- [start:example]
import torch
from attnref.softmax import stable

m, needle = 1000, 617
generator = torch.Generator().manual_seed(0)
noise = torch.randn(m, generator=generator)
seen = noise.clone()
seen[needle] = 6.0
other = torch.randn(m, generator=generator)

maps = {
    "none": torch.zeros(m),
    "the same noise": stable(noise),
    "half of it": stable((noise + other) / 2**0.5),
    "another noise": stable(other),
}
print("second map        needle  all others  of their size left")
for name, second in maps.items():
    weights = stable(seen) - 0.8 * second
    rest = torch.cat([weights[:needle], weights[needle + 1 :]])
    size = rest.norm() / stable(seen)[torch.arange(m) != needle].norm()
    print(
        f"{name:16} {weights[needle]:7.3f} {rest.sum():11.3f}"
        f" {100 * size:18.0f}%"
    )
# --8<-- [end:example]
