"""What dropout does to a row of weights, by all its outcomes at once."""

import itertools
import math

import pytest
import torch

from attnref import MultiHeadAttention, attention_weights


@pytest.fixture
def row(device, randn):
    """Seven weights, values of width 3, and all 128 ways to keep some of the weights."""
    query, key = (randn(n, 5) for n in (1, 7))
    value = randn(7, 3)
    keep = torch.tensor(list(itertools.product([0.0, 1.0], repeat=7)), dtype=torch.float64)
    return attention_weights(query, key)[0], value, keep.to(device)


def chances(keep, rate):
    kept = keep.sum(-1)
    return (1 - rate) ** kept * rate ** (keep.shape[-1] - kept)


@pytest.mark.claim("dropout-keeps-the-mean")
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_mean_and_variance_over_all_outcomes(row, rate):
    """E(P~) = P, and Var = P^2 r / (1 - r): of a weight, a row sum, an output."""
    p, value, keep = row
    chance = chances(keep, rate)
    dropped = keep * p / (1 - rate)  # (128, 7)
    close = {"rtol": 1e-12, "atol": 1e-13}  # sums of 128 products
    torch.testing.assert_close(chance @ dropped, p, **close)
    torch.testing.assert_close(chance @ dropped @ value, p @ value, **close)
    odds = rate / (1 - rate)
    torch.testing.assert_close(chance @ (dropped - p).square(), odds * p.square(), **close)
    outputs = dropped @ value
    spread = chance @ (outputs - p @ value).square()
    torch.testing.assert_close(spread, odds * (p.square() @ value.square()), **close)
    # Without the factor 1 / (1 - r) the mean is too small by just that factor.
    torch.testing.assert_close(chance @ (keep * p), (1 - rate) * p, **close)


@pytest.mark.claim("dropout-moves-row-sums")
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_sum_of_a_row_is_one_on_average_only(row, rate):
    p, _, keep = row
    chance = chances(keep, rate)
    sums = (keep * p / (1 - rate)).sum(-1)
    assert (chance @ sums).item() == pytest.approx(1.0, rel=1e-12)
    law = math.sqrt(rate / (1 - rate) * p.square().sum().item())
    assert (chance @ (sums - 1).square()).sqrt().item() == pytest.approx(law, rel=1e-12)
    assert (sums - 1).abs().min() > 1e-6  # none of the 128 outcomes sums to 1


@pytest.mark.claim("renormalised-dropout-is-biased")
def test_dividing_by_the_sum_again_moves_the_mean(row):
    p, value, keep = row
    chance = chances(keep, 0.5)
    sums = (keep * p).sum(-1, keepdim=True)
    renormalised = torch.where(sums > 0, keep * p / sums.clamp(min=1e-300), 0.0)
    given_some = chance[1:] / chance[1:].sum()  # the first outcome keeps nothing
    assert (chance @ renormalised @ value - p @ value).abs().max() > 0.01
    # Not only because of that outcome: large weights lose on average, small ones win.
    mean = given_some @ renormalised[1:]
    assert mean[p.argmax()] < p.max() - 1e-3
    assert mean[p.argmin()] > p.min() + 1e-3


@pytest.mark.claim("dropout-parts-equal-heads")
@pytest.mark.claim("heads-come-from-chance")
def test_dropout_draws_a_mask_for_each_head(device, generator, randn):
    """Heads begun alike part ways under dropout, which draws for each; without it they never do."""
    apart = {}
    for dropout_p, alike in ((0.0, True), (0.2, True), (0.0, False)):
        torch.manual_seed(0)  # of PyTorch's dropout
        layer = MultiHeadAttention(
            8, 2, dropout_p=dropout_p, generator=generator, device=device, dtype=torch.float64
        )
        inputs = (layer.query_proj, layer.key_proj, layer.value_proj)
        if alike:
            with torch.no_grad():
                for linear in inputs:
                    linear.weight[4:] = linear.weight[:4]
                layer.out_proj.weight[:, 4:] = layer.out_proj.weight[:, :4]
        x, target = randn(2, 5, 7, 8)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        losses = []
        for _ in range(100):
            optimizer.zero_grad()
            losses.append((layer(x) - target).square().mean())
            losses[-1].backward()
            optimizer.step()
        assert losses[-1] < 0.8 * losses[0]  # it does learn
        apart[dropout_p, alike] = max(
            (linear.weight[:4] - linear.weight[4:]).abs().max().item() for linear in inputs
        )
    # 100 steps of sums of some hundred numbers near 1, each off by an eps or so.
    assert apart[0.0, True] < 1e-12
    assert apart[0.2, True] > 1e-3
    assert apart[0.0, False] > 0.1
