"""The six-word example and its lesson on softmax and sum, in exact or 50-digit arithmetic."""

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
import torch

import attnref

WORDS = {
    "Your": ("0.43", "0.15", "0.89"),
    "journey": ("0.55", "0.87", "0.66"),
    "starts": ("0.57", "0.85", "0.64"),
    "with": ("0.22", "0.58", "0.33"),
    "one": ("0.77", "0.25", "0.10"),
    "step": ("0.05", "0.80", "0.55"),
}
VECTORS = [[Fraction(number) for number in word] for word in WORDS.values()]


def scores() -> list[Fraction]:
    """Of the query "journey", exactly."""
    query = VECTORS[1]
    return [sum(a * b for a, b in zip(query, x, strict=True)) for x in VECTORS]


def softmax(numbers: list[Fraction]) -> list[Decimal]:
    with localcontext(prec=50):
        powers = [(Decimal(s.numerator) / Decimal(s.denominator)).exp() for s in numbers]
        return [power / sum(powers) for power in powers]


def rounded(numbers) -> list[str]:
    return [f"{number:.4f}" for number in numbers]


@pytest.mark.claim("six-word-weights")
def test_weights_of_journey(device):
    expected = softmax(scores())
    assert rounded(expected) == ["0.1385", "0.2379", "0.2333", "0.1240", "0.1082", "0.1581"]
    X = torch.tensor([[float(a) for a in x] for x in VECTORS], dtype=torch.float64, device=device)
    ours = attnref.attention_weights(X[1:2], X, scale=1.0)[0]
    for weight, wanted in zip(ours.tolist(), expected, strict=True):
        assert weight == pytest.approx(float(wanted), abs=1e-15)


@pytest.mark.claim("six-word-context")
def test_context_of_journey(device):
    weights = [Fraction(weight) for weight in softmax(scores())]
    expected = [sum(w * x[p] for w, x in zip(weights, VECTORS, strict=True)) for p in range(3)]
    assert rounded(map(float, expected)) == ["0.4419", "0.6515", "0.5683"]
    X = torch.tensor([[float(a) for a in x] for x in VECTORS], dtype=torch.float64, device=device)
    ours = attnref.scaled_dot_product_attention(X, X, X, scale=1.0)[1]
    for number, wanted in zip(ours.tolist(), expected, strict=True):
        assert number == pytest.approx(float(wanted), abs=1e-15)


@pytest.mark.claim("scores-are-not-weights")
def test_scores_times_values_are_no_average():
    product = [sum(s * x[p] for s, x in zip(scores(), VECTORS, strict=True)) for p in range(3)]
    assert rounded(map(float, product)) == ["2.8579", "4.2330", "3.7270"]
    assert all(product[p] > max(x[p] for x in VECTORS) for p in range(3))


@pytest.mark.claim("rotation-changes-no-weight")
def test_rotating_every_embedding_changes_no_weight(randn):
    x = randn(11, 5)
    rotation, _ = torch.linalg.qr(randn(5, 5))
    turned = x @ rotation
    assert not torch.allclose(x, turned)
    expected = torch.softmax(x @ x.mT / 5**0.5, dim=-1)
    for words in (x, turned):
        torch.testing.assert_close(attnref.attention_weights(words, words), expected)
    # Other matrices do change them.
    assert (attnref.attention_weights(2 * turned, turned) - expected).abs().max() > 0.01


@pytest.mark.claim("softmax-raised-the-smallest")
def test_softmax_gives_one_more_than_the_sum_does():
    by_sum = [score / sum(scores()) for score in scores()]
    by_softmax = softmax(scores())
    smallest = by_sum.index(min(by_sum))
    assert list(WORDS)[smallest] == "one"
    assert rounded([float(by_sum[smallest]), by_softmax[smallest]]) == ["0.1077", "0.1082"]


@pytest.mark.claim("scale-or-shift-invariance")
def test_the_sum_ignores_a_factor_and_the_softmax_an_addend(device, generator):
    s = torch.rand(7, 11, dtype=torch.float64, device=device, generator=generator) + 0.1

    def by_sum(s):
        return s / s.sum(-1, keepdim=True)

    torch.testing.assert_close(by_sum(10 * s), by_sum(s))
    torch.testing.assert_close(torch.softmax(s + 100, -1), torch.softmax(s, -1))
    assert (by_sum(s + 100) - by_sum(s)).abs().max() > 0.01
    assert (torch.softmax(10 * s, -1) - torch.softmax(s, -1)).abs().max() > 0.01
