"""A cache that keeps the graph of the last step, or is written in place."""

# --8<-- [start:example]
import textwrap

import torch

generator = torch.Generator().manual_seed(0)
weight = torch.randn(4, 4, generator=generator, requires_grad=True)
pieces = torch.randn(2, 3, 4, generator=generator)


def train(keep):
    cache = torch.zeros(0, 4)
    for piece in pieces:  # a long text, learned piece by piece
        cache = torch.cat([keep(cache), piece @ weight])
        scores = piece @ weight @ cache.mT
        torch.softmax(scores, -1).square().sum().backward()


def write_in_place():
    cache, loss = torch.zeros(6, 4), 0.0
    for i, piece in enumerate(pieces):
        cache[3 * i : 3 * i + 3] = piece @ weight
        scores = piece @ weight @ cache.mT
        loss = loss + torch.softmax(scores, -1).square().sum()
    loss.backward()


for name, run in (
    ("kept as it is", lambda: train(lambda cache: cache)),
    ("written in place", write_in_place),
    ("detached", lambda: train(torch.Tensor.detach)),
):
    try:
        run()
        print(f"{name}: runs")
    except RuntimeError as error:
        print(textwrap.fill(f"{name}: {error}", 72))
# --8<-- [end:example]
