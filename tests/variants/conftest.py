"""What the tests of several variants ask for: the same gradients, too, and the work counted."""

import collections
import weakref

import pytest
import torch


@pytest.fixture
def assert_same(randn):
    """Compares values and gradients; the tolerance is a few thousand roundings of float64."""

    def assert_same(ours, expected, inputs, tolerance=1e-12):
        close = {"rtol": tolerance, "atol": tolerance / 10}
        torch.testing.assert_close(ours, expected, **close)
        weight = randn(*ours.shape)
        one = torch.autograd.grad(ours, inputs, weight)
        other = torch.autograd.grad(expected, inputs, weight, retain_graph=True)
        torch.testing.assert_close(one, other, **close)

    return assert_same


class Counter(torch.utils._python_dispatch.TorchDispatchMode):
    """Multiplications of matrix products, and the most bytes of tensors alive at one time."""

    def __init__(self):
        super().__init__()
        self.products = self.alive = self.peak = 0
        self.owners = collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = str(function)
        if "mm" in name:
            self.products += result.numel() * args[0].shape[-1]
        elif "flash_attention_for_cpu" in name:  # one width for all, to which values are filled up
            backward = "backward" in name
            query, key = args[backward : backward + 2]
            self.products += query.numel() * key.shape[-2] * (5 if backward else 2)
        for made in result if isinstance(result, tuple) else (result,):
            if isinstance(made, torch.Tensor) and all(made is not x for x in args):
                self.hold(made)
        return result

    def hold(self, made):
        storage = made.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        self.alive += 0 if self.owners[place] else size
        self.owners[place] += 1
        self.peak = max(self.peak, self.alive)
        weakref.finalize(made, self.release, place, size)

    def release(self, place, size):
        self.owners[place] -= 1
        self.alive -= 0 if self.owners[place] else size


@pytest.fixture
def count():
    """Runs a function without arguments, and gives what was counted meanwhile."""

    def count(function):
        with Counter() as counter:
            function()
        return counter

    return count
