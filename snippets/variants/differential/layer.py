"""A layer as in the paper: learned factor, a norm for each head."""

# --8<-- [start:example]
from functools import partial

import torch
from attnref import MultiHeadAttention, differential_attention
from attnref.positions import rotary
from attnref.variants.differential import LearnedLambda, initial_lambda

D, h, d, depth = 512, 4, 64, 3
initial = initial_lambda(depth)


def turned(x, *, offset):  # each half is a query, or a key, of its own
    halves = x.chunk(2, -1)
    return torch.cat([rotary(half, offset=offset) for half in halves], -1)


class DifferentialLayer(torch.nn.Module):
    def __init__(self, generator):
        super().__init__()
        self.lambd = LearnedLambda(d, initial=initial, generator=generator)
        self.heads = MultiHeadAttention(
            D,
            h,
            head_dim=2 * d,
            value_head_dim=2 * d,
            bias=False,
            rotate=turned,
            attention=self.attend,
            generator=generator,
        )

    def attend(self, query, key, value, **options):
        attend = partial(differential_attention, lambd=self.lambd())
        answer = attend(query, key, value, **options)
        normed = torch.nn.functional.rms_norm(answer, (2 * d,))
        return (1 - initial) * normed

    def forward(self, x):
        return self.heads(x, is_causal=True)


generator = torch.Generator().manual_seed(0)
layer = DifferentialLayer(generator)
output = layer(torch.randn(2, 100, D, generator=generator))
output.square().mean().backward()
print("lambda starts at", round(initial, 3), "and is", end=" ")
print(round(layer.lambd().item(), 3))
print("its vectors learn:", layer.lambd.vectors.grad.abs().sum().item() > 0)
usual = sum(
    weight.numel()
    for weight in MultiHeadAttention(
        D, 2 * h, bias=False, generator=generator
    ).parameters()
)
ours = sum(weight.numel() for weight in layer.parameters())
print("parameters:", ours, "instead of", usual)
# --8<-- [end:example]
