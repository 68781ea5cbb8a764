"""From the nearest neighbour to the plain mean, by one number."""

# --8<-- [start:example]
import torch
from attnref import similarity

known = torch.arange(0, 5.5, 0.5)[:, None]  # 0.0, 0.5, … 5.0
value = torch.sin(known)  # what is known there
asked = torch.tensor([[0.7], [2.3], [4.2]])

nearest = similarity.nearest_neighbours(
    similarity.euclidean_scores(asked, known), count=1
)
answers = {"nearest neighbour": nearest @ value}
for h in (0.05, 0.3, 1.0, 100.0):
    answers[f"bandwidth {h}"] = similarity.kernel_regression(
        asked, known, value, bandwidth=h
    )
answers["mean of all"] = value.mean(0).expand(3, 1)
answers["sine itself"] = torch.sin(asked)
for name, answer in answers.items():
    print(f"{name:18}", " ".join(f"{number:7.3f}" for number in answer[:, 0]))
# --8<-- [end:example]
