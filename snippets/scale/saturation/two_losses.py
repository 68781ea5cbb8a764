"""Saturated on the wrong key: two losses, and two ways out."""

# --8<-- [start:example]
import torch

target = torch.tensor([0.0, 1.0], dtype=torch.float64)  # the second key
value = torch.tensor([[0.0], [1.0]], dtype=torch.float64)


def cross_entropy(p):
    return -p[1].log()


def through_values(p):
    """Attention: the loss sees the output p V, here its squared error."""
    return (p @ value - 1).square().sum()


print("        gradient to the right key's score")
print("lead of the wrong key  cross-entropy  through values")
for lead in (1.0, 4.0, 8.0, 16.0, 32.0):
    s = torch.tensor([lead, 0.0], dtype=torch.float64, requires_grad=True)
    gradients = [
        torch.autograd.grad(loss(torch.softmax(s, dim=-1)), s)[0][1]
        for loss in (cross_entropy, through_values)
    ]
    print("{:21.0f}  {:13.3f}  {:14.1e}".format(lead, *gradients))
# --8<-- [end:example]
