import math
from functools import partial

import pytest
import torch

import attnref
from attnref import masks, scaling
from attnref.adaptive_scaling import from_entropy, from_past, from_variance
from attnref.bench.memory import peak_bytes
from tests.variants.every import every


def mean_entropy(query, key, factor):
    """Mean over the rows, straight from the definition, with the factor as a tensor."""
    log_weights = torch.log_softmax(factor * (query @ key.mT), dim=-1)
    return -(log_weights.exp() * log_weights).sum(-1).mean(-1)


@pytest.mark.claim("variance-without-the-scores")
def test_from_variance_is_the_variance_of_the_scores(randn):
    """Also with means that are not zero, and a leading dimension of its own for each head."""
    query, key = randn(2, 3, 5, 7) + randn(3, 1, 7), randn(3, 11, 7) - randn(3, 1, 1)
    scores = query @ key.mT  # (2, 3, 5, 11)
    factor = from_variance(query, key)
    assert factor.shape == (2, 3, 1, 1)
    expected = scores.var((-2, -1), correction=0, keepdim=True).rsqrt()
    torch.testing.assert_close(factor, expected, rtol=1e-12, atol=0)
    # The trace alone is the mean square, and too large when the mean is not 0.
    trace = (query.mT @ query * (key.mT @ key)).sum((-2, -1), keepdim=True) / (5 * 11)
    mean = (query.mean(-2, keepdim=True) * key.mean(-2, keepdim=True)).sum(-1, keepdim=True)
    torch.testing.assert_close((trace - mean**2).rsqrt(), expected, rtol=1e-11, atol=0)
    assert (trace.rsqrt() / expected).min() < 0.9


def test_from_variance_does_not_cancel_where_the_textbook_form_does(randn):
    """Scores of mean 10⁶ and deviation near 10³, in float32: a difference of numbers near 10¹²."""
    query, key = 1e3 + randn(97, 5), 2e2 + randn(101, 5)
    exact = (query @ key.mT).std(correction=0).item()
    q, k = query.float(), key.float()
    ours = 1 / from_variance(q, k).item()
    eps = torch.finfo(torch.float32).eps
    # Rounding the components to float32 moves each deviation from the mean by eps/2 of 10³.
    assert ours == pytest.approx(exact, rel=1e3 * eps)
    mean_square = ((q.mT @ q) * (k.mT @ k)).sum() / (97 * 101)
    textbook = (mean_square - (q.mean(0) @ k.mean(0)) ** 2).item()
    assert abs(textbook / exact**2 - 1) > 1e3 * eps


@pytest.mark.claim("variance-without-the-scores")
def test_from_variance_never_forms_the_scores(randn):
    """All that it allocates is less than a tenth of what there are pairs."""
    n, m, d_k = 997, 1009, 7
    query, key = randn(n, d_k), randn(m, d_k)
    pairs = n * m * query.itemsize
    assert peak_bytes(lambda: from_variance(query, key), query.device) < pairs / 10
    assert peak_bytes(lambda: (query @ key.mT).var(), query.device) >= pairs


@pytest.mark.claim("usual-initialisers")
@every(
    ("initialise", "expected"),
    [
        (lambda w, g: w.normal_(std=768**-0.5, generator=g), 1.0),
        (lambda w, g: [torch.nn.init.xavier_uniform_(x, generator=g) for x in w.split(768)], 1.0),
        (
            lambda w, g: [torch.nn.init.xavier_uniform_(x, generator=g) for x in w.split(64)],
            (2 * 768 / (768 + 64)) ** 2,
        ),
        (lambda w, g: torch.nn.init.kaiming_uniform_(w, generator=g), 4.0),
        (lambda w, g: torch.nn.init.kaiming_uniform_(w, a=math.sqrt(5), generator=g), 1 / 9),
        (lambda w, g: torch.nn.init.xavier_uniform_(w, generator=g), 1 / 4),
        (lambda w, g: w.normal_(std=0.02, generator=g), (768 * 4e-4) ** 2),
    ],
)
def test_usual_initialisers_do_not_give_variance_1(initialise, expected, device, generator, randn):
    """Given normalised inputs, Var(q·k) = d_k σ⁴ |x|²|y|²: the weights decide, not 1/sqrt(d_k).

    The model "components of variance 1" holds for two initialisers of seven.
    """
    width, heads, tokens = 768, 12, 64
    x = torch.nn.functional.layer_norm(randn(tokens, width, dtype=torch.float32), (width,))
    stacked = torch.empty(3 * width, width, device=device)
    initialise(stacked, generator)
    query, key = (
        (x @ stacked[part * width : (part + 1) * width].mT)
        .unflatten(-1, (heads, 64))
        .transpose(0, 1)
        for part in (0, 1)
    )  # (12, 64, 64)
    variance = from_variance(query, key).square().reciprocal() / 64  # (12, 1, 1)
    error = variance.std().item() / math.sqrt(heads)
    # Five standard errors, from the twelve heads; the pairs' own mean takes 1/tokens² of it.
    assert variance.mean().item() == pytest.approx(expected, abs=5 * error + expected / tokens)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_errors_of_equal_scores_are_not_blown_up(dtype, randn):
    """Keys that differ only across the one query: their scores are equal up to rounding."""
    rotation, _ = torch.linalg.qr(randn(7, 7))
    key = randn(101, 7)
    key[:, 0] = 1.0
    query, key = rotation[:1].to(dtype), (key @ rotation).to(dtype)
    factor = from_variance(query, key)
    scores = query @ key.mT
    spread = scores.amax() - scores.amin()
    assert spread > 0
    assert factor * spread < 1
    # Their own deviation would make them spread as far as any other scores.
    assert spread / scores.std(correction=0) > 2


@pytest.mark.parametrize("size", [0.0, 300.0])
def test_equal_keys_give_a_finite_factor(size, device):
    query = torch.full((5, 7), size, device=device)
    factor = from_variance(query, query)
    assert factor.isfinite().all()
    weights = attnref.attention_weights(scaling.scale_query(query, factor), query, scale=1.0)
    assert (weights.amax(-1) / weights.amin(-1)).log().amax() < 1  # what is left is rounding


@pytest.mark.claim("entropy-target-is-reached")
@every("target", [0.1, 1.0, math.log(11) - 0.5, math.log(11) - 1e-4])
def test_from_entropy_reaches_its_target_in_every_head(target, device, randn):
    sizes = torch.tensor([0.01, 1.0, 100.0], device=device, dtype=torch.float64)
    query, key = sizes[:, None, None] * randn(2, 3, 5, 7), randn(3, 11, 7)
    factor = from_entropy(query, key, target=target)
    assert factor.shape == (2, 3, 1, 1)
    reached = mean_entropy(query, key, factor)
    # The last interval is 2^-43 wide in log2 c, and |dH / d log2 c| <= c² Var ln 2 stays below 100.
    torch.testing.assert_close(reached, torch.full_like(reached, target), rtol=0, atol=1e-11)
    alone = from_entropy(query[1, 2], key[2], target=target)
    torch.testing.assert_close(factor[1, 2], alone, rtol=1e-9, atol=0)


def test_a_tie_that_no_factor_breaks_gives_the_largest(device):
    key = torch.tensor([[1.0], [1.0], [0.0]], device=device)
    query = torch.ones(1, 1, device=device)
    factor = from_entropy(query, key, target=0.5)
    assert factor.isfinite().all()
    largest = 2**16 * from_variance(query, key)
    torch.testing.assert_close(factor, largest, rtol=1e-5, atol=0)
    weights = attnref.attention_weights(scaling.scale_query(query, factor), key, scale=1.0)
    assert weights.tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("size", [1e10, 1e15])
def test_squares_of_large_numbers_do_not_overflow(size, device, randn):
    """In float32, whose largest number is 3e38."""
    query, key = randn(2, 5, 3, dtype=torch.float32), randn(2, 7, 3, dtype=torch.float32)
    for factor in (from_variance, partial(from_entropy, target=1.0)):
        torch.testing.assert_close(
            factor(size * query, size * key) * size * size, factor(query, key), rtol=1e-4, atol=0
        )


@every(("n", "m"), [(0, 5), (5, 0), (0, 0)])
def test_without_scores_the_factor_is_the_usual_one(n, m, randn):
    query, key = randn(2, n, 4), randn(2, m, 4)
    factors = [from_variance(query, key)]
    factors += [from_entropy(query, key, target=1.0)] if m else []
    for factor in factors:
        assert torch.equal(factor, torch.full_like(factor, 0.5))
        assert factor.shape == (2, 1, 1)


@every("wrong", [0.0, -1.0, math.log(3), 7.0, math.nan])
def test_a_target_out_of_range_is_named(wrong, randn):
    message = (
        r"^target: expected an entropy between 0 and ln 3 nats, .* write math\.log\(3\) - 0\.5"
    )
    with pytest.raises(ValueError, match=message):
        from_entropy(randn(2, 5), randn(3, 5), target=wrong)


def from_some_entropy(query, key):
    return from_entropy(query, key, target=0.7 * math.log(key.shape[-2]))


ADAPTIVE = pytest.mark.parametrize("adaptive", [from_variance, from_some_entropy])
EVERY = pytest.mark.parametrize("adaptive", [from_variance, from_some_entropy, from_past])


@pytest.mark.claim("adaptive-factors-leak")
@ADAPTIVE
def test_statistics_of_the_whole_sequence_leak_the_future(adaptive, device, randn):
    """Under a causal mask a change of the last token moves earlier rows, which must not be.

    A factor of each row's own keys does not leak, and neither does a constant one.
    """
    n, width = 7, 5
    x, projections, value = randn(n, width), randn(2, width, width), randn(n, 3)
    changed = x.clone()
    changed[-1] = 3 * randn(width)
    visible = torch.arange(1, n + 1, device=device).double()

    def outputs(tokens, factor_of):
        query, key = tokens @ projections  # (7, 5) each
        scaled = scaling.scale_query(query, factor_of(query, key))
        rows = attnref.scaled_dot_product_attention(scaled, key, value, is_causal=True, scale=1.0)
        return rows[:-1]

    moved = (outputs(x, adaptive) - outputs(changed, adaptive)).abs().amax(-1)
    assert moved[0] == 0  # it has one key, and gives it weight 1 whatever the factor
    assert moved[1:].min() > 1e-4
    for causal in (
        lambda query, key: width**-0.5,
        lambda query, key: scaling.log_length(width, visible),
    ):
        assert torch.equal(outputs(x, causal), outputs(changed, causal))


@pytest.mark.claim("padding-changes-the-statistics")
@ADAPTIVE
def test_padding_changes_the_statistics(adaptive, device, randn):
    query, key = randn(5, 7), randn(11, 7)
    padded = torch.cat([key, torch.zeros(4, 7, device=device, dtype=key.dtype)])
    alone, with_padding = adaptive(query, key), adaptive(query, padded)
    assert (with_padding / alone - 1).abs() > 0.02
    # Cut off by its mask, the padding is gone.
    kept = padded[masks.padding([11], 15).dense(device=device)[0, 0, 0]]
    assert torch.equal(adaptive(query, kept), alone)


@EVERY
@every("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_factors_are_computed_in_float32_and_detached(adaptive, dtype, randn):
    """Components of 300: their squares overflow float16, their factor does not."""
    query, key = (size * randn(7, 5, dtype=dtype) for size in (300, 1))
    kept = query.clone(), key.clone()
    factor = adaptive(query.requires_grad_(), key.requires_grad_())
    assert factor.dtype == torch.float32
    assert not factor.requires_grad
    assert torch.equal(query, kept[0])
    assert torch.equal(key, kept[1])
    exact = adaptive(query.double(), key.double())
    # Relative errors of sums of 49 products at most, and of the entropy's slope near 1.
    torch.testing.assert_close(factor.double(), exact, rtol=49 * 2**-23, atol=0)


@EVERY
def test_shapes_that_do_not_belong_together_are_named(adaptive, randn):
    with pytest.raises(ValueError, match=r"^key: expected last dimension 7, as query has"):
        adaptive(randn(5, 7), randn(5, 3))


@EVERY
def test_adaptive_factors_vmap_and_compile(adaptive, randn):
    query, key = randn(3, 7, 5), randn(3, 7, 5)
    together = adaptive(query, key)
    torch.testing.assert_close(torch.vmap(adaptive)(query, key), together, rtol=1e-9, atol=0)
    compiled = torch.compile(adaptive, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(query, key), together, rtol=1e-9, atol=0)


# ---- a factor for each row, from the scores up to it


def past_by_hand(query, key):
    """The variance of the formula, with a loop for each of its sums."""
    total = degrees = 0.0
    variances = []
    for i, row in enumerate(query):
        seen = [(row @ other).item() for other in key[: i + 1]]
        mean = sum(seen) / len(seen)
        total, degrees = total + sum((s - mean) ** 2 for s in seen), degrees + i
        variances.append(total / degrees if degrees else float(len(row)))
    return torch.tensor(variances, dtype=torch.float64, device=query.device)


def test_from_past_is_its_formula_in_every_head(randn):
    query, key = randn(2, 3, 11, 5), 0.3 + randn(3, 11, 5)
    factor = from_past(query, key)
    assert factor.shape == (2, 3, 11, 1)
    for one, q, k in zip(
        factor.flatten(0, 1), query.flatten(0, 1), torch.cat([key, key]), strict=True
    ):
        torch.testing.assert_close(one[:, 0] ** -2, past_by_hand(q, k), rtol=1e-12, atol=0)


@pytest.mark.claim("past-factor-decodes-as-it-trains")
def test_a_factor_from_the_past_reads_no_future_and_is_the_same_when_decoded(randn):
    n = 11
    x, projections, value = randn(n, 7), randn(2, 7, 5), randn(n, 3)
    for last in (0, 4, 10):
        changed = x.clone()
        changed[last:] = torch.nan  # what comes later may be anything
        rows = []
        for tokens in (x, changed):
            query, key = tokens @ projections
            factor = from_past(query, key)
            scaled = scaling.scale_query(query, factor)
            output = attnref.scaled_dot_product_attention(
                scaled, key, value, is_causal=True, scale=1.0
            )
            rows.append(torch.cat([factor, output], dim=-1)[:last])
        assert rows[1].isfinite().all()
        torch.testing.assert_close(rows[0], rows[1], rtol=1e-13, atol=1e-13)
    query, key = x @ projections
    whole = from_past(query, key)
    for length in range(1, n + 1):
        so_far = from_past(query[:length], key[:length])
        torch.testing.assert_close(so_far[-1], whole[length - 1], rtol=1e-12, atol=0)
    # It does read the past, and its own row.
    moved = from_past(query, torch.cat([3 * key[:1], key[1:]])) / whole - 1
    assert (moved[1:].abs() > 1e-3).all()


@pytest.mark.claim("past-factor-knows-the-variance")
def test_from_past_estimates_the_variance_of_the_scores_from_the_second_row_on(randn):
    """Mean of 1/c² over draws, each within five standard errors; the spread falls with the row."""
    draws, n, d_k = 4000, 13, 7
    query, key, common = randn(draws, n, d_k), randn(draws, n, d_k), 5 * randn(d_k)
    factor = from_past(query, key)
    estimate = factor[..., 0] ** -2  # (draws, n)
    assert (estimate[:, 0] - d_k).abs().max() < 1e-12  # the usual factor, which asks no score
    error = estimate.std(0)[1:] / math.sqrt(draws)
    assert ((estimate.mean(0)[1:] - d_k).abs() < 5 * error).all()
    assert (estimate.std(0)[1:].diff() < 0).all()
    assert error[0] > 5 * error[-1]
    # A part that all keys share is no spread, as a softmax sees it; all pairs together show it.
    torch.testing.assert_close(from_past(query, key + common), factor, rtol=1e-9, atol=0)
    assert from_variance(query, key + common).median() < 0.5 * from_variance(query, key).median()
    # And it undoes the size of the scores, as every factor read off them does.
    torch.testing.assert_close(from_past(3 * query, key)[:, 1:], factor[:, 1:] / 3)


def test_from_past_needs_as_many_keys_as_queries(randn):
    expected = r"^key: expected as many keys as queries, 5, got 11: .* keep the last row\.$"
    with pytest.raises(ValueError, match=expected):
        from_past(randn(5, 7), randn(11, 7))


def test_from_past_of_equal_keys_is_finite(randn):
    query, key = 300 * randn(7, 5, dtype=torch.float32), randn(1, 5, dtype=torch.float32)
    equal = from_past(query, key.expand(7, 5))
    assert equal.isfinite().all()
    # What differs between equal scores, eps of their size, is left below 1.
    size = query.norm(dim=-1).max() * key.norm()
    assert (equal[1:] * size * torch.finfo(torch.float32).eps < 1).all()
