"""A head that learns to find a word, under the root and an adaptive factor."""

# --8<-- [start:example]
import torch
from attnref import adaptive_scaling, softmax

n, width, d_k = 16, 64, 64


def batch(generator, size):
    """Words, noisy copies of the first ones as questions, and values."""
    x = torch.randn(size, n, width, generator=generator)
    noise = torch.randn(size, 1, width, generator=generator)
    values = torch.randn(size, n, 8, generator=generator)
    return x, 0.9 * x[:, :1] + 0.4 * noise, values


def usual(q, k):
    return d_k**-0.5


def run(factor, steps=100):
    generator = torch.Generator().manual_seed(0)
    W = torch.randn(2, width, d_k, generator=generator) / width**0.5
    optimiser = torch.optim.Adam([W.requires_grad_()], lr=0.01)
    for step in range(steps + 1):
        x, asking, values = batch(generator, 32 if step < steps else 500)
        q, k = asking @ W[0], x @ W[1]
        p = softmax.stable(factor(q, k) * q @ k.mT)  # (sentences, 1, n)
        error = (p @ values - values[:, :1]).square().mean()
        if step < steps:
            optimiser.zero_grad()
            error.backward()
            optimiser.step()
    return error, softmax.entropy(p).exp().mean(), W.norm()


print("factor         error  keys  size of both W")
for name, factor in {
    "1/sqrt(d_k)": usual,
    "from variance": adaptive_scaling.from_variance,
}.items():
    error, keys, size = run(factor)
    print(f"{name:13}  {error:5.2f}  {keys:4.1f}  {size:14.1f}")
# --8<-- [end:example]
