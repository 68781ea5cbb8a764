"""Two ways to turn scores into weights, and where the simpler one breaks."""

# --8<-- [start:example]
import torch


def by_sum(scores):
    return scores / scores.sum()


def show(title, numbers):
    print(title, numbers)
    scores = torch.tensor(numbers)
    for name, normalise in (
        ("sum", by_sum),
        ("softmax", lambda s: torch.softmax(s, dim=-1)),
    ):
        print(
            f"  {name:8}",
            " ".join(f"{weight:.4f}" for weight in normalise(scores)),
        )


show("journey", [0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865])
show("a negative score", [2.0, -1.0, -0.5])
show("a sum of zero", [1.0, -1.0])
show("three scores", [1.0, 2.0, 3.0])
show("the same, plus 100", [101.0, 102.0, 103.0])
show("the same, times 10", [10.0, 20.0, 30.0])
# --8<-- [end:example]
