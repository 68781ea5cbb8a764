"""From the nearest neighbour to the plain mean, by one number."""

# --8<-- [start:example]
import torch
from attnref import similarity, softmax


def kernel_regression(q, k, v, h):
    """The mean of the values; those of keys near the query count more."""
    scores = similarity.euclidean_scores(q, k, scale=1 / (2 * h**2))  # (n, m)
    return softmax.stable(scores) @ v


known = torch.arange(0, 5.5, 0.5)[:, None]  # 0.0, 0.5, … 5.0
value = torch.sin(known)  # what is known there
asked = torch.tensor([[0.7], [2.3], [4.2]])

nearest = similarity.euclidean_scores(asked, known).argmax(-1)
answers = {"nearest neighbour": value[nearest]}
for h in (0.05, 0.3, 1.0, 100.0):
    answers[f"bandwidth {h}"] = kernel_regression(asked, known, value, h)
answers["mean of all"] = value.mean(0).expand(3, 1)
answers["sine itself"] = torch.sin(asked)
for name, answer in answers.items():
    print(f"{name:18}", " ".join(f"{number:7.3f}" for number in answer[:, 0]))
# --8<-- [end:example]
