"""Different matrices, one function: what training cannot tell apart."""

# --8<-- [start:example]
import attnref
import torch

n, d_model, d_k, d_v = 7, 8, 4, 5
generator = torch.Generator().manual_seed(0)


def draw(*shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


X, W_v = draw(n, d_model), draw(d_model, d_v)
W_q, W_k = draw(d_model, d_k), draw(d_model, d_k)


def attend(W_q, W_k, query_bias=0.0, key_bias=0.0):
    Q, K = X @ W_q + query_bias, X @ W_k + key_bias
    return attnref.scaled_dot_product_attention(Q, K, X @ W_v)


M, bias = draw(d_k, d_k), draw(d_k)
others = {
    "W_q M and W_k with M inverted": attend(W_q @ M, W_k @ M.inverse().T),
    "W_q W_k^T and the identity": attend(
        W_q @ W_k.T * (d_model / d_k) ** 0.5, torch.eye(d_model).double()
    ),
    "a bias on every key": attend(W_q, W_k, key_bias=bias),
    "a bias on every query": attend(W_q, W_k, query_bias=bias),
}
for name, output in others.items():
    same = torch.allclose(output, attend(W_q, W_k))
    print(f"{name:30} same output: {same}")
# --8<-- [end:example]
