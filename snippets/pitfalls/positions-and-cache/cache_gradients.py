"""A cache that keeps the graph of the last step, or is written in place."""

# --8<-- [start:example]
import textwrap

import torch

generator = torch.Generator().manual_seed(0)
weight = torch.randn(4, 4, generator=generator, requires_grad=True)
chunks = torch.randn(2, 3, 4, generator=generator)


def train(keep):
    cache = torch.zeros(0, 4)
    for chunk in chunks:  # a long text, learned chunk by chunk
        cache = torch.cat([keep(cache), chunk @ weight])
        scores = chunk @ weight @ cache.mT
        torch.softmax(scores, -1).square().sum().backward()


def write_in_place():
    cache, loss = torch.zeros(6, 4), 0.0
    for i, chunk in enumerate(chunks):
        cache[3 * i : 3 * i + 3] = chunk @ weight
        scores = chunk @ weight @ cache.mT
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
