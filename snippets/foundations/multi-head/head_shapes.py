"""Shapes on the way through a layer of three heads."""

# --8<-- [start:example]
import torch
from attnref import attend

b, n, d_model, h = 2, 5, 12, 3
d_k = d_model // h
generator = torch.Generator().manual_seed(0)
x = torch.randn(b, n, d_model, generator=generator)
w_q, w_k, w_v, w_o = torch.randn(4, d_model, d_model, generator=generator)


def show(name, tensor):
    print(f"{name:31} {tuple(tensor.shape)}")


def split(tensor):
    """(b, n, h d_k) as (b, h, n, d_k): each head gets its columns."""
    return tensor.view(b, n, h, d_k).transpose(1, 2)


show("x", x)
show("x @ w_q", x @ w_q)
show("cut into heads", (x @ w_q).view(b, n, h, d_k))
q, k, v = split(x @ w_q), split(x @ w_k), split(x @ w_v)
show("heads in front: q, k, v", q)
output, weights, _ = attend(q, k, v)
show("weights", weights)
show("one answer a head and word", output)
joined = output.transpose(1, 2).reshape(b, n, h * d_k)
show("heads side by side", joined)
show("joined @ w_o", joined @ w_o)
# --8<-- [end:example]
