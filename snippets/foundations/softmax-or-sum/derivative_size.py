"""How far a small change of the scores can move the weights."""

# --8<-- [start:example]
import torch
from attnref import softmax


def reach(jacobian):
    """The largest factor by which it can stretch a change."""
    return torch.linalg.matrix_norm(jacobian, ord=2)


print("scores            sum of them   by sum  by softmax")
for total in (4.0, 1.0, 0.1, 0.01, 0.001):
    scores = torch.tensor([1.0, 2.0, total - 3.0], dtype=torch.float64)
    weights = scores / scores.sum()
    by_sum = reach((torch.eye(3) - weights[:, None]) / scores.sum())
    by_softmax = reach(softmax.jacobian(softmax.stable(scores)))
    shown = ", ".join(f"{score:g}" for score in scores)
    print(f"{shown:16}  {total:11g}  {by_sum:7.4g}  {by_softmax:10.3f}")
# --8<-- [end:example]
