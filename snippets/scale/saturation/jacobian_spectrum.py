"""Eigenvalues of the softmax's Jacobian lie between its sorted weights."""

# --8<-- [start:example]
import torch
from attnref import softmax

scores = {
    "six words": [0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865],
    "all equal": [0.0] * 6,
    "two rivals": [20.0, 20.0, 0.0, 0.0, 0.0, 0.0],
    "saturated": [9.0, 0.0, 0.0, 0.0, 0.0, 0.0],
}


def row(label, numbers):
    print(f"  {label:12}" + "".join(f"{abs(x):7.4f}" for x in numbers))


for name, s in scores.items():
    p = softmax.stable(torch.tensor(s, dtype=torch.float64))
    J = softmax.jacobian(p)
    eigenvalues = torch.linalg.eigvalsh(J).flip(0)  # from the largest down
    print(f"{name}: trace {J.trace():.4f}, 1 - max p {1 - p.max():.4f}")
    row("weights", p.sort(descending=True).values)
    row("eigenvalues", eigenvalues)
# --8<-- [end:example]
