"""Queries, keys and values: three projections of the same six words."""

# --8<-- [start:example]
import torch
from attnref.minimal.attention import scaled_dot_product_attention

n, d_model, d_k, d_v = 6, 3, 2, 5
generator = torch.Generator().manual_seed(0)
X = torch.rand(n, d_model, generator=generator)  # one word per row
W_q = torch.randn(d_model, d_k, generator=generator)
W_k = torch.randn(d_model, d_k, generator=generator)
W_v = torch.randn(d_model, d_v, generator=generator)

Q, K, V = X @ W_q, X @ W_k, X @ W_v
O = scaled_dot_product_attention(Q, K, V)  # noqa: E741 (as in the formula)
for name, matrix in {"X": X, "Q": Q, "K": K, "V": V, "O": O}.items():
    print(name, tuple(matrix.shape))

rows = []
for i in range(n):  # the same, one query after another
    scores = torch.stack([Q[i] @ K[j] for j in range(n)]) / d_k**0.5
    weights = torch.softmax(scores, dim=0)
    rows.append(sum(weights[j] * V[j] for j in range(n)))
print("the loop agrees:", torch.allclose(O, torch.stack(rows), atol=1e-6))
# --8<-- [end:example]
