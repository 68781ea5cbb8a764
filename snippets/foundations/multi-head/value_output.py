"""W_V and W_O of a head are one matrix, cut in two."""

# --8<-- [start:example]
import torch
from attnref import attention_weights, scaled_dot_product_attention

n, d_model, d_k, d_v = 5, 12, 4, 3
generator = torch.Generator().manual_seed(0)
x = torch.randn(n, d_model, generator=generator, dtype=torch.float64)
w_q, w_k = torch.randn(2, d_model, d_k, generator=generator).double()
w_v = torch.randn(d_model, d_v, generator=generator).double()
w_o = torch.randn(d_v, d_model, generator=generator).double()

head = scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v) @ w_o

meet, carry = w_q @ w_k.mT, w_v @ w_o  # (d_model, d_model) each
weights = torch.softmax(x @ meet @ x.mT / d_k**0.5, dim=-1)
print("two matrices do:", torch.allclose(weights @ x @ carry, head))
print("ranks:", *(int(torch.linalg.matrix_rank(a)) for a in (meet, carry)))
print("numbers:", w_v.numel() + w_o.numel(), "instead of", carry.numel())

mix = torch.randn(d_k, d_k, generator=generator).double()  # any invertible one
same = attention_weights(x @ w_q @ mix, x @ w_k @ mix.inverse().mT)
print("other queries and keys, same weights:", torch.allclose(same, weights))
# --8<-- [end:example]
