"""Turn the space of the embeddings: every number changes, no output does."""

# --8<-- [start:example]
from math import cos, sin

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
)
generator = torch.Generator().manual_seed(0)
W_q, W_k, W_v = torch.randn(3, 3, 2, generator=generator)

c, s = cos(3), sin(3)  # a turn about one axis, then about another
R = torch.tensor([[c, s, 0], [-s, c, 0], [0, 0, 1]])
R = R @ torch.tensor([[1, 0, 0], [0, c, s], [0, -s, c]])


def output(X, W_q, W_k, W_v):
    return attnref.scaled_dot_product_attention(X @ W_q, X @ W_k, X @ W_v)


for name, x in {"as given": X, "turned": X @ R}.items():
    order = x[:, 0].argsort(descending=True)
    print(f"{name:8} journey is", " ".join(f"{n:5.2f}" for n in x[1]))
    print("  by first number:", ", ".join(words[i] for i in order))
before = output(X, W_q, W_k, W_v)
after = output(X @ R, R.T @ W_q, R.T @ W_k, R.T @ W_v)
print("same outputs:", torch.allclose(before, after, atol=1e-6))
# --8<-- [end:example]
