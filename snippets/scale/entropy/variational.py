"""The softmax wins the contest of value plus entropy, at any price."""

# --8<-- [start:example]
import torch
from attnref import softmax

# q·k of "journey" with each of the six words
x = torch.tensor([0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865])


def gain(p, T):
    """Expected score plus T times the entropy."""
    return (p @ x + T * softmax.entropy(p)).item()


print("                  T = 0.1  T = 1.0  T = 10")
contest = {
    "softmax(x / T)": lambda T: softmax.stable(x / T),
    "softmax(x)": lambda T: softmax.stable(x),
    "the largest only": lambda T: (x == x.max()).float(),
    "all the same": lambda T: torch.full((6,), 1 / 6),
    "x / sum of x": lambda T: x / x.sum(),
}
for name, rule in contest.items():
    cells = [f"{gain(rule(T), T):9.4f}" for T in (0.1, 1.0, 10.0)]
    print(f"{name:16}" + "".join(cells))
bound = [f"{T * softmax.log_sum_exp(x / T).item():9.4f}" for T in (0.1, 1, 10)]
print(f"{'T ln Z':16}" + "".join(bound))
# --8<-- [end:example]
