"""What the order of two products costs, and what the softmax forbids."""

# --8<-- [start:example]
import torch
from torch.utils.flop_counter import FlopCounterMode

n, d = 2048, 64
generator = torch.Generator().manual_seed(0)
q, k, v = (
    torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in "qkv"
)


def left():
    return (q @ k.T) @ v


def right():
    return q @ (k.T @ v)


def attention():
    return torch.softmax(q @ k.T / d**0.5, dim=-1) @ v


for function in (left, right, attention):
    with FlopCounterMode(display=False) as counter:
        function()
    millions = counter.get_total_flops() / 1e6
    print(f"{function.__name__:9}  {millions:6.1f} million operations")
print("left is right:", torch.allclose(left(), right()))
print("left is attention:", torch.allclose(left() / d**0.5, attention()))
# --8<-- [end:example]
