"""Joining the heads and projecting, or projecting each and adding up."""

# --8<-- [start:example]
import torch

n, d_model, h, d_v = 5, 12, 3, 4
generator = torch.Generator().manual_seed(0)
heads = torch.randn(h, n, d_v, generator=generator)  # what each head found
w_o = torch.randn(h * d_v, d_model, generator=generator)

joined = torch.cat(list(heads), dim=-1) @ w_o  # (n, h d_v) (h d_v, d_model)
blocks = w_o.view(h, d_v, d_model)  # the rows of each head
added = sum(head @ block for head, block in zip(heads, blocks, strict=True))
print("the same:", torch.allclose(joined, added, rtol=0, atol=1e-5))

# Likewise on the way in: one matrix of h d_k columns is h matrices of d_k.
x = torch.randn(n, d_model, generator=generator)
w_q = torch.randn(d_model, h * d_v, generator=generator)
whole = (x @ w_q).split(d_v, dim=-1)
parts = [x @ columns for columns in w_q.split(d_v, dim=-1)]
same = [
    torch.allclose(one, other, rtol=0, atol=1e-5)
    for one, other in zip(whole, parts, strict=True)
]
print("head by head:", same)
# --8<-- [end:example]
