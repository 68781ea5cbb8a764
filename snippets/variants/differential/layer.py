"""A layer as in the paper: learned factor, a norm for each head."""

# --8<-- [start:example]
import torch
from attnref import LearnedLambda, MultiHeadAttention, differential_attention
from attnref.positions import rotary

D, h, d, depth = 512, 4, 64, 3


def turned(x, *, offset):  # each half is a query, or a key, of its own
    halves = x.chunk(2, -1)
    return torch.cat([rotary(half, offset=offset) for half in halves], -1)


class DifferentialLayer(torch.nn.Module):
    def __init__(self, generator):
        super().__init__()
        self.lambd = LearnedLambda(d, layer=depth, generator=generator)
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
        lambd = self.lambd()
        answer = differential_attention(query, key, value, lambd, **options)
        normed = torch.nn.functional.rms_norm(answer, (2 * d,))
        return (1 - self.lambd.initial) * normed

    def forward(self, x):
        return self.heads(x, is_causal=True)


generator = torch.Generator().manual_seed(0)
layer = DifferentialLayer(generator)
output = layer(torch.randn(2, 100, D, generator=generator))
output.square().mean().backward()
print("lambda starts at", round(layer.lambd.initial, 3), "and is", end=" ")
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
