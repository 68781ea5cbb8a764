"""Work and depth, on programs whose every operation knows when it can begin."""

import copy
import math

import pytest
import torch
from torch.nn import functional as F

import attnref


class Number:
    """A float that counts operations and knows the step at which it is ready."""

    work = 0

    def __init__(self, value, step=0):
        self.value, self.step = value, step

    def after(self, function, *others):
        Number.work += 1
        step = max(number.step for number in (self, *others)) + 1
        return Number(function(self.value, *(other.value for other in others)), step)

    def __add__(self, other):
        return self.after(float.__add__, other)

    def __sub__(self, other):
        return self.after(float.__sub__, other)

    def __mul__(self, other):
        return self.after(float.__mul__, other)

    def __truediv__(self, other):
        return self.after(float.__truediv__, other)


@pytest.fixture(autouse=True)
def _from_zero(monkeypatch):
    monkeypatch.setattr(Number, "work", 0)


def tree(numbers, function):
    """Pairs, then pairs of pairs; one that is left over waits for the next round."""
    while len(numbers) > 1:
        pairs = zip(numbers[::2], numbers[1::2], strict=False)
        rest = numbers[len(numbers) // 2 * 2 :]
        numbers = [a.after(function, b) for a, b in pairs] + rest
    return numbers[0]


def one_by_one(numbers, function):
    total, *rest = numbers
    for number in rest:
        total = total.after(function, number)
    return total


def dot(x, y, reduce):
    return reduce([a * b for a, b in zip(x, y, strict=True)], float.__add__)


def attention(query, key, value, scale, reduce):
    output = []
    for q in query:
        scores = [dot(q, k, reduce) * scale for k in key]
        top = reduce(scores, max)
        powers = [(score - top).after(math.exp) for score in scores]
        total = reduce(powers, float.__add__)
        weights = [power / total for power in powers]
        output.append([dot(weights, column, reduce) for column in zip(*value, strict=True)])
    return output


def recurrence(words, matrix, reduce):
    state = [Number(0.0) for _ in words[0]]
    for word in words:
        moved = [dot(line, state, reduce) for line in matrix]
        state = [(a + b).after(math.tanh) for a, b in zip(moved, word, strict=True)]
    return state


def numbers(tensor):
    return [[Number(number) for number in row] for row in tensor.tolist()]


def values(rows):
    return torch.tensor([[number.value for number in row] for row in rows], dtype=torch.float64)


def rounds(count):
    """Of a tree over so many numbers."""
    return math.ceil(math.log2(count))


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.claim("attention-has-logarithmic-depth")
@pytest.mark.parametrize(("n", "m", "d"), [(3, 7, 5), (5, 64, 16), (2, 33, 3)])
def test_depth_of_attention(n, m, d):
    """Products, scale, difference, exponential, quotient, products; and four trees."""
    query, key, value = draw(n, d), draw(m, d), draw(m, 4)
    rows = attention(*map(numbers, (query, key, value)), Number(d**-0.5), tree)
    expected = attnref.scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(values(rows), expected, rtol=1e-12, atol=1e-12)
    depth = max(number.step for row in rows for number in row)
    assert depth == 6 + rounds(d) + 3 * rounds(m)
    by_trees = Number.work
    Number.work = 0
    rows = attention(*map(numbers, (query, key, value)), Number(d**-0.5), one_by_one)
    torch.testing.assert_close(values(rows), expected, rtol=1e-12, atol=1e-12)
    assert Number.work == by_trees  # parallel, and no operation less
    assert max(number.step for row in rows for number in row) == 6 + d - 1 + 3 * (m - 1)


@pytest.mark.claim("recurrence-has-linear-depth")
def test_depth_of_a_recurrence():
    for n, d in ((3, 5), (16, 4), (33, 3)):
        words, matrix = draw(n, d), draw(d, d)
        state = recurrence(numbers(words), numbers(matrix), tree)
        expected = torch.zeros(d, dtype=torch.float64)
        for word in words:
            expected = torch.tanh(matrix @ expected + word)
        torch.testing.assert_close(values([state])[0], expected, rtol=1e-10, atol=1e-10)
        assert max(number.step for number in state) == n * (3 + rounds(d))


@pytest.mark.claim("one-pass-trains-all-prefixes")
def test_a_causal_pass_is_a_pass_over_every_prefix(device, generator, randn):
    """Outputs, and gradients of a loss that adds up over positions."""
    n, width = 7, 12
    options = {"generator": generator, "device": device, "dtype": torch.float64}
    layers = [attnref.MultiHeadAttention(width, 3, **options) for _ in range(2)]
    words = randn(n, width).requires_grad_()
    upstream = randn(n, width)

    def model(x):
        for layer in layers:
            x = x + layer(x, is_causal=True)
        return x

    parameters = [words, *(p for layer in layers for p in layer.parameters())]
    whole = model(words)
    by_torch = copy.deepcopy(layers)
    for layer in by_torch:
        layer.attention = F.scaled_dot_product_attention
    others = words
    for layer in by_torch:
        others = others + layer(others, is_causal=True)
    torch.testing.assert_close(whole, others, rtol=1e-12, atol=1e-12)
    together = torch.autograd.grad(whole, parameters, upstream)
    rows = [model(words[: t + 1])[-1] for t in range(n)]
    torch.testing.assert_close(torch.stack(rows), whole, rtol=1e-12, atol=1e-12)
    apart = torch.autograd.grad((torch.stack(rows) * upstream).sum(), parameters)
    for one, other in zip(together, apart, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
