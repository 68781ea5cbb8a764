"""How many independent directions the scores and the weights have."""

# --8<-- [start:example]
import torch

n, d_model = 128, 64
generator = torch.Generator().manual_seed(0)
X = torch.randn(n, d_model, generator=generator, dtype=torch.float64)


def directions(matrix, least):
    """Singular values above this share of the largest."""
    sizes = torch.linalg.svdvals(matrix)
    return int((sizes > least * sizes[0]).sum())


print(" d_k  rank of S  directions of P above one thousandth")
for d_k in (1, 4, 16, 64):
    W_q, W_k = torch.randn(2, d_model, d_k, generator=generator, dtype=X.dtype)
    Q, K = X @ W_q / d_model**0.5, X @ W_k / d_model**0.5
    S = Q @ K.T / d_k**0.5
    P = torch.softmax(S, dim=-1)
    print(f"{d_k:4}  {directions(S, 1e-9):9}  {directions(P, 1e-3):14}")
# --8<-- [end:example]
