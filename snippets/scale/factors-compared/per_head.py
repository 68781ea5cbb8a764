"""Factors chosen by entropy for each head, against the root."""

# --8<-- [start:example]
import math

import torch
from attnref import adaptive_scaling, softmax

seeds, n, width, heads, d_k = 5, 16, 32, 4, 8
WANTED = (2, 4, 8, 15)  # how many keys each head spreads over at first


def batch(generator, size=32):
    """Words, noisy copies of the first ones as questions, and answers."""
    x = torch.randn(seeds, size, n, width, generator=generator)
    noise = torch.randn(seeds, size, 1, width, generator=generator)
    first, mean = x[..., 0, :8], x.mean(-2)[..., 8:16]
    answers = torch.cat([first, n**0.5 * mean], dim=-1)
    return x, 0.9 * x[..., :1, :] + 0.4 * noise, answers


def project(x, W):
    return torch.einsum("sbnd,shde->sbhne", x, W)


def root(q, k):
    return d_k**-0.5


def by_entropy(q, k):
    """The factors with which untrained heads spread as wanted."""
    factors = []
    for q_h, k_h, keys in zip(q.unbind(2), k.unbind(2), WANTED, strict=True):
        target = math.log(keys)
        c = adaptive_scaling.from_entropy(q_h, k_h, target=target)
        factors.append(c.log().mean(1).exp())  # one for all sentences
    return torch.stack(factors, dim=1)[:, None]


def run(choose, rate, steps=200):
    """The errors, (steps, seeds): the seeds train side by side."""
    generator = torch.Generator().manual_seed(0)
    W = torch.randn(3, seeds, heads, width, d_k, generator=generator)
    W_O = torch.randn(seeds, heads * d_k, 16, generator=generator)
    W, W_O = W / width**0.5, W_O / (heads * d_k) ** 0.5
    x, asking, _ = batch(generator)
    c = choose(project(asking, W[0]), project(x, W[1]))  # and kept
    learned = [W.requires_grad_(), W_O.requires_grad_()]
    optimiser = torch.optim.Adam(learned, lr=rate)
    errors = []
    for _ in range(steps):
        x, asking, answers = batch(generator)
        q, k, v = map(project, (asking, x, x), W)
        p = softmax.stable(c * q @ k.mT)  # (seeds, sentences, heads, 1, n)
        output = (p @ v).flatten(2) @ W_O
        error = (output - answers).square().mean((1, 2))  # (seeds,)
        optimiser.zero_grad()
        error.sum().backward()
        optimiser.step()
        errors.append(error.detach())
    return torch.stack(errors)


print("step  factors     best rate  error  of the seeds")
rates = (0.01, 0.03, 0.1)
runs = {c: {rate: run(c, rate) for rate in rates} for c in (root, by_entropy)}
for step in (50, 100, 200):
    for choose, errors in runs.items():
        end = {rate: errors[rate][step - 20 : step].mean(0) for rate in rates}
        best = min(rates, key=lambda rate: end[rate].mean())
        low, mean, high = end[best].min(), end[best].mean(), end[best].max()
        row = f"{step:4}  {choose.__name__:10}  {best:9}  {mean:5.2f}"
        print(f"{row}  {low:.2f} to {high:.2f}")
# --8<-- [end:example]
