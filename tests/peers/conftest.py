"""What the tests against implementations of others share."""

import importlib.util
import os

import pytest
import torch

from attnref.bench.peers import _load_file


@pytest.fixture
def fla():
    """Files of flash-linear-attention, alone: its package wants a GPU's compiler, they do not."""
    for package in ("fla", "einops"):
        if importlib.util.find_spec(package) is None:
            stop = pytest.fail if os.environ.get("CI") else pytest.skip
            stop(f"{package} is not installed: pip install fla-core")
    return lambda folder: _load_file("fla", f"ops/{folder}/naive.py")


@pytest.fixture
def drawn(randn):
    """A layer in float64 whose weights are drawn, so that it makes numbers of size 1 of such."""

    def drawn(layer):
        layer = layer.double().eval()
        for parameter in layer.parameters():
            parameter.data = randn(*parameter.shape) / parameter.shape[-1] ** 0.5
        return layer

    return drawn


@pytest.fixture
def assert_same(randn):
    """Two outputs of the same inputs, and their gradients to these, are equal."""

    def assert_same(ours, theirs, leaves, gradients=None, **close):
        torch.testing.assert_close(ours, theirs, **close)
        weight, leaves = randn(*ours.shape), list(leaves)
        found, expected = (torch.autograd.grad(one, leaves, weight) for one in (ours, theirs))
        torch.testing.assert_close(found, expected, **(gradients or close))

    return assert_same


@pytest.fixture
def added(device):
    """A mask as numbers in float64 that are added to the scores, for layers that take them."""

    def added(allowed, least=-torch.inf):
        seen = allowed.dense(device)
        return torch.zeros(seen.shape, dtype=torch.float64, device=device).masked_fill(~seen, least)

    return added
