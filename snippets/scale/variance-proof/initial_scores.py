"""The variance of scaled scores that common initialisations really give."""

# --8<-- [start:example]
import torch
from torch import nn

n, d_model, heads = 512, 768, 12
d_k = d_model // heads
generator = torch.Generator().manual_seed(0)
x = nn.functional.layer_norm(
    torch.randn(n, d_model, generator=generator), (d_model,)
)


def normal(weight, deviation):
    return nn.init.normal_(weight, std=deviation, generator=generator)


def uniform(weight, bound):
    return nn.init.uniform_(weight, -bound, bound, generator=generator)


initialisations = {
    "normal, variance 1/d_model": lambda w: normal(w, d_model**-0.5),
    "nn.Linear": lambda w: uniform(w, d_model**-0.5),
    "nn.MultiheadAttention": lambda w: uniform(w, (6 / (4 * d_model)) ** 0.5),
    "GPT-2, deviation 0.02": lambda w: normal(w, 0.02),
}
others = ~torch.eye(n, dtype=torch.bool)  # pairs of different tokens
for name, initialise in initialisations.items():
    q, k = (
        (x @ initialise(torch.empty(d_model, d_model)))
        .view(n, heads, d_k)
        .transpose(0, 1)
        for _ in range(2)
    )  # (heads, n, d_k) each
    scores = q @ k.mT / d_k**0.5
    print(f"{name:27} {scores[:, others].var():.3f}")
# --8<-- [end:example]
