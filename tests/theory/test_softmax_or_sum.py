"""What the page on softmax and the plain sum claims, beyond the tests of attnref.softmax."""

import pytest
import torch

import attnref
from attnref import softmax


def weights(function, scores):
    return function(scores) / function(scores).sum(-1, keepdim=True)


@pytest.mark.claim("only-the-exponential-ignores-a-shift")
def test_a_common_addend_changes_the_weights_of_every_other_function(device, generator):
    scores = torch.rand(101, 7, dtype=torch.float64, device=device, generator=generator) + 0.1
    for c in (-1.0, 0.3, 2.0):

        def exponential(s, c=c):
            return 5.0 * torch.exp(c * s)

        moved = weights(exponential, scores + 3) - weights(exponential, scores)
        assert moved.abs().max() < 1e-14
    for other in (
        lambda s: s,
        lambda s: s**2 + 1,
        lambda s: s**0.5,
        lambda s: torch.log1p(torch.exp(s)),
        lambda s: torch.exp(s) + 1,
        lambda s: torch.exp(s**2 / 4),
        torch.cosh,
        torch.sigmoid,
    ):
        moved = weights(other, scores + 3) - weights(other, scores)
        assert moved.abs().amax(-1).median() > 1e-3


@pytest.mark.claim("common-part-of-keys-cancels")
def test_a_vector_added_to_every_key_changes_no_weight_of_a_softmax(device, generator):
    query, key, common = (
        torch.rand(rows, 5, dtype=torch.float64, device=device, generator=generator)
        for rows in (11, 7, 1)
    )
    before = attnref.attention_weights(query, key)
    after = attnref.attention_weights(query, key + 10 * common)
    torch.testing.assert_close(before, after, rtol=0, atol=1e-14)
    # Of the keys only: the same vector added to all queries is another question.
    assert (attnref.attention_weights(query + 10 * common, key) - before).abs().max() > 0.01
    scores = [query @ keys.mT for keys in (key, key + 10 * common)]
    by_sum = [s / s.sum(-1, keepdim=True) for s in scores]
    assert (by_sum[0] - by_sum[1]).abs().max() > 0.01


@pytest.mark.claim("weights-underflow")
def test_a_weight_can_be_zero_without_a_mask(device):
    for dtype, gap in [(torch.float32, 104.0), (torch.float64, 746.0)]:
        rows = torch.tensor([[0.0, -gap], [0.0, -0.8 * gap]], dtype=dtype, device=device)
        far, nearer = softmax.stable(rows)
        assert far.tolist() == [1.0, 0.0]
        # Processors may treat numbers below the smallest normal one as 0: 80 % stays above.
        assert nearer[1] > 0
