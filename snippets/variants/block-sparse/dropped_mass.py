"""What it costs to leave keys out: twice their weight, and no more."""

# --8<-- [start:example]
import attnref
import torch

n, d = 512, 16
generator = torch.Generator().manual_seed(0)
noise, value = torch.randn(2, n, d, generator=generator)
place = torch.linspace(0, 12, n)[:, None] * torch.linspace(0.2, 1, d)
smooth = torch.cos(place) * 2  # neighbours are alike
near = (torch.arange(n)[:, None] - torch.arange(n)).abs() < 64
diameter = torch.cdist(value, value).max()

print("keys               dropped  distance  error  bound")
for name, x in (("random", noise), ("like neighbours", smooth)):
    weights = attnref.attention_weights(x, x)
    kept = attnref.attention_weights(x, x, near)
    dropped = (weights * ~near).sum(-1)  # the weight outside
    distance = (weights - kept).abs().sum(-1)
    error = ((weights - kept) @ value).norm(dim=-1)
    bound = dropped * diameter
    assert (error <= bound).all()
    figures = dropped.mean(), distance.mean(), error.mean(), bound.mean()
    print(f"{name:17}", *(f"{float(x):8.3f}" for x in figures))
# --8<-- [end:example]
