"""The six context vectors at once, by two matrix products."""

# --8<-- [start:example]
import attnref
import torch

words = ["Your", "journey", "starts", "with", "one", "step"]
X = torch.tensor(
    [
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ]
)  # (n, d) = (6, 3)

scores = X @ X.T  # (6, 6)
weights = torch.softmax(scores, dim=-1)  # (6, 6), each row sums to 1
contexts = weights @ X  # (6, 3)

for word, row, context in zip(words, weights, contexts, strict=True):
    print(
        f"{word:8}",
        " ".join(f"{weight:.4f}" for weight in row),
        "->",
        " ".join(f"{number:.4f}" for number in context),
    )
same = attnref.scaled_dot_product_attention(X, X, X, scale=1.0)
print("attnref with scale=1.0 agrees:", torch.allclose(contexts, same))

sums = scores[1] @ X  # the softmax forgotten
print("scores times X:  ", " ".join(f"{number:.4f}" for number in sums))
columns = torch.softmax(scores, dim=0)  # along the wrong side
print("row sums of dim=0:", " ".join(f"{s:.2f}" for s in columns.sum(-1)))
# --8<-- [end:example]
