"""A layer of three heads in one call, head by head, and in PyTorch."""

# --8<-- [start:example]
import torch
from attnref import scaled_dot_product_attention
from attnref.minimal.multi_head import multi_head_attention
from torch import nn

b, n, d_model, h = 2, 5, 12, 3
generator = torch.Generator().manual_seed(0)
x = torch.randn(b, n, d_model, generator=generator)
in_weight = torch.randn(3 * d_model, d_model, generator=generator)
out_weight = torch.randn(d_model, d_model, generator=generator)
output = multi_head_attention(x, in_weight, out_weight, h)
print("output", tuple(output.shape))

answers = []  # as the definition has it: one head after another
for i in range(h):
    block = in_weight.view(3, h, d_model // h, d_model)[:, i]  # of this head
    q, k, v = (x @ weight.mT for weight in block)  # (b, n, d_k) each
    answers.append(scaled_dot_product_attention(q, k, v))
by_heads = torch.cat(answers, dim=-1) @ out_weight.mT
print("head by head:", torch.allclose(output, by_heads, atol=1e-4))

layer = nn.MultiheadAttention(d_model, h, bias=False, batch_first=True)
layer.in_proj_weight.data, layer.out_proj.weight.data = in_weight, out_weight
same = torch.allclose(output, layer(x, x, x)[0], atol=1e-4)
print("nn.MultiheadAttention:", same)
# --8<-- [end:example]
