"""What tells two heads apart: where they begin, or the dropout mask?"""

# --8<-- [start:example]
import torch
from attnref import MultiHeadAttention


def two_heads(alike, dropout_p):
    """A layer of two heads after 200 steps: how far apart are the heads?"""
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, dropout_p=dropout_p)
    inputs = (layer.query_proj, layer.key_proj, layer.value_proj)
    with torch.no_grad():
        if alike:  # the second head begins as a copy of the first
            for linear in inputs:
                linear.weight[4:] = linear.weight[:4]
            layer.out_proj.weight[:, 4:] = layer.out_proj.weight[:, :4]
    x, target = torch.randn(2, 5, 7, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        (layer(x) - target).square().mean().backward()
        optimizer.step()
    return max((w[:4] - w[4:]).abs().max() for w in (i.weight for i in inputs))


for alike in (False, True):
    for dropout_p in (0.0, 0.2):
        begin = "alike" if alike else "at random"
        apart = "yes" if two_heads(alike, dropout_p) > 1e-3 else "no"
        print(f"begun {begin:9}  dropout {dropout_p}  two heads: {apart}")
# --8<-- [end:example]
