"""What the page on queries, keys and values claims of projections, ranks and biases."""

import pytest
import torch

import attnref
from attnref import bounded_scores
from attnref.positions import rotary

N, D_MODEL, D_K, D_V = 13, 11, 5, 7


@pytest.mark.claim("scores-need-not-be-symmetric")
def test_scores_are_mutual_without_projections_and_not_with_them(randn):
    x, w_q, w_k = randn(N, D_MODEL), randn(D_MODEL, D_K), randn(D_MODEL, D_K)
    for shared in (x, x @ w_q):
        scores = shared @ shared.mT
        torch.testing.assert_close(scores, scores.mT, rtol=0, atol=1e-13)
        # The odds of two keys are those of their scores, which the rows give back.
        odds = attnref.attention_weights(shared, shared, scale=1.0).log()
        torch.testing.assert_close(odds - odds[:, :1], scores - scores[:, :1])
    odds = attnref.attention_weights(x @ w_q, x @ w_k, scale=0.1).log()
    scores = 10 * (odds + (0.1 * (x @ w_q) @ (x @ w_k).mT).logsumexp(-1, keepdim=True))
    torch.testing.assert_close(scores, (x @ w_q) @ (x @ w_k).mT)
    assert (scores - scores.mT).abs().median() > 1


@pytest.mark.claim("any-invertible-matrix-fits")
@pytest.mark.claim("only-the-product-counts")
def test_the_product_of_the_two_matrices_sets_the_weights(randn):
    x, w_q, w_k = randn(N, D_MODEL), randn(D_MODEL, D_K), randn(D_MODEL, D_K)
    expected = attnref.attention_weights(x @ w_q, x @ w_k)
    mix = randn(D_K, D_K)
    other = attnref.attention_weights(x @ (w_q @ mix), x @ (w_k @ mix.inverse().mT))
    torch.testing.assert_close(other, expected, rtol=0, atol=1e-12)
    merged = attnref.attention_weights(x @ (w_q @ w_k.mT), x, scale=D_K**-0.5)
    torch.testing.assert_close(merged, expected, rtol=0, atol=1e-12)
    # Not so with a matrix on one side only.
    assert (attnref.attention_weights(x @ (w_q @ mix), x @ w_k) - expected).abs().max() > 0.1


@pytest.mark.claim("biases-of-the-three")
def test_a_bias_on_keys_is_lost_and_one_on_values_comes_out(randn):
    query, key, value = randn(N, D_K), randn(N, D_K), randn(N, D_V)
    b, c = randn(D_K), randn(D_V)
    attend = attnref.scaled_dot_product_attention
    expected = attend(query, key, value)
    torch.testing.assert_close(attend(query, key + b, value), expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(attend(query, key, value + c), expected + c, rtol=0, atol=1e-14)
    assert (attend(query + b, key, value) - expected).abs().max() > 0.1
    # Where scores are more than a product with the key, the addends differ: each key is turned by
    # an angle of its own afterwards, or is normalised, or scores are bent, or one is no product.
    for other in (
        lambda k: attend(rotary(query[:, :4]), rotary(k[:, :4]), value),
        lambda k: attend(*bounded_scores.qk_rms_norm(query, k), value),
        lambda k: attend(query, k, value, softcap=2.0),
        # A score of 0 beside the others, a sink, whose value is nothing.
        lambda k: torch.softmax(torch.nn.functional.pad(query @ k.mT, (0, 1)), -1)[:, :-1] @ value,
    ):
        assert (other(key + b) - other(key)).abs().max() > 0.05


@pytest.mark.claim("scores-have-at-most-the-rank-of-a-head")
@pytest.mark.claim("scores-have-rank-at-most-d-k")
@pytest.mark.claim("width-bounds-the-rank")
@pytest.mark.parametrize("n", [7, 13, 101])
def test_scores_have_the_rank_of_their_width_and_weights_may_have_more(n, randn):
    """A rank is a count of singular values that are not rounding errors."""

    def rank(table):
        sizes = torch.linalg.svdvals(table)
        return (sizes > 1e-12 * sizes[0]).sum()

    scores = randn(n, D_K) @ randn(n, D_K).mT
    weights = torch.softmax(scores, dim=-1)
    assert rank(scores) == D_K
    assert rank(weights) > D_K
    assert rank(weights @ randn(n, D_V)) == D_V
