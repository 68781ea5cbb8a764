"""A softmax by hand that survives a row without keys, gradients included."""

# --8<-- [start:example]
import torch

generator = torch.Generator().manual_seed(0)
drawn = torch.randn(3, 4, generator=generator)
value = torch.randn(4, 2, generator=generator)
may = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]).bool()
mask = torch.zeros(3, 4).masked_fill(~may, -torch.inf)


def wrong(scores):
    return torch.softmax(scores + mask, -1)


def silent(scores):
    return torch.softmax(scores.masked_fill(~may, -1e9), -1)


def hidden(scores):
    return wrong(scores).nan_to_num(0.0)


def fixed(scores):
    empty = ~may.any(-1, keepdim=True)
    weights = torch.softmax((scores + mask).masked_fill(empty, 0.0), -1)
    return weights.masked_fill(empty, 0.0)


for weigh in (wrong, silent, hidden, fixed):
    scores = drawn.clone().requires_grad_()
    weights = weigh(scores)
    (weights @ value).sum().backward()
    row = " ".join(f"{weight:.2f}" for weight in weights[1])
    print(f"{weigh.__name__:7} row 1: {row}", end="  ")
    print("finite gradients:", bool(scores.grad.isfinite().all()))
# --8<-- [end:example]
