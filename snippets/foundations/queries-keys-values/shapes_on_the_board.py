"""Three products as they are often written, and what PyTorch says of them."""

# --8<-- [start:example]
import torch

X = torch.rand(6, 3, generator=torch.Generator().manual_seed(0))
W_q = torch.ones(3, 2)
Q = X @ W_q
weights = torch.softmax(X @ X[1], dim=-1)  # of one query

print("X (6, 3), W_q (3, 2), Q = X W_q", tuple(Q.shape))
for name, left, right in (
    ("Q W_q", Q, W_q),
    ("X weights", X, weights),
    ("weights X", weights, X),
):
    try:
        print(name, tuple((left @ right).shape))
    except RuntimeError as error:
        print(name, "is not defined:", error)
# --8<-- [end:example]
