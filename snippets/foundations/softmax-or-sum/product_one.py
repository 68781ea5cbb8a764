"""Weights whose product is 1, and weights whose sum is 1."""

# --8<-- [start:example]
import torch

X = torch.tensor(
    [
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ]
)
scores = X @ X[1]  # of "journey"
for name, weights in {
    "product 1": torch.exp(scores - scores.mean()),
    "sum 1": torch.softmax(scores, dim=-1),
}.items():
    context = " ".join(f"{number:.2f}" for number in weights @ X)
    print(
        f"{name:9}: product {weights.prod():.5f}, sum {weights.sum():.2f},",
        f"context {context}",
    )
# --8<-- [end:example]
