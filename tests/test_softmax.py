"""Softmax in all its forms, its derivative, and the merging of partial attention."""

import functools
import math

import pytest
import torch

from attnref import oracle, softmax
from tests.variants.every import every

EPS = torch.finfo(torch.float64).eps
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def stable_by_blocks(scores, *, dim=-1):
    return softmax.online(scores, block_size=3, dim=dim)


SAFE = pytest.mark.parametrize("function", [softmax.stable, stable_by_blocks])


@pytest.fixture
def scores(device, generator, randn):
    """Scores of s.d. 3 with every kind of masking; a row without keys, one with a single key."""
    scores = 3 * randn(2, 5, 7)
    forbidden = torch.rand(2, 5, 7, device=device, generator=generator) < 0.3
    forbidden[0, 1] = True
    forbidden[1, 2] = torch.arange(7, device=device) != 4
    forbidden[1, 3, :3] = True  # the first block of three, then the last
    forbidden[1, 4, 3:] = True
    return scores.masked_fill(forbidden, -torch.inf)


@pytest.fixture
def value(randn):
    return randn(2, 7, 3)


def attention(scores, value):
    """The answer from the oracle: an identity as query, the scores as additive mask."""
    n, m = scores.shape[-2:]
    nothing = torch.zeros(scores.shape[0], n, 1), torch.zeros(scores.shape[0], m, 1)
    output, weights, _ = oracle.attend(*nothing, value.detach().cpu(), scores.detach().cpu())
    return tuple(torch.as_tensor(array, device=scores.device) for array in (output, weights))


def gradients(function, *inputs):
    """Gradients of a fixed random projection of ``function(*inputs)``."""
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    output = function(*inputs)
    generator = torch.Generator(output.device).manual_seed(1)
    direction = torch.randn(output.shape, generator=generator, device=output.device)
    return torch.autograd.grad(output, inputs, direction.to(output.dtype))


# ---- naive, stable, online


def naive(scores, *, dim=-1):
    powers = torch.exp(scores)
    return powers / powers.sum(dim, keepdim=True)


@pytest.mark.claim("naive-softmax-overflows")
@every(
    ("dtype", "fine", "over"),
    [(torch.float16, 11.08, 11.1), (torch.float32, 88.72, 88.73), (torch.float64, 709.78, 709.79)],
)
def test_the_naive_formula_overflows_and_the_stable_one_does_not(dtype, fine, over, device):
    limit = torch.finfo(dtype).max
    assert math.log(limit) == pytest.approx(fine, abs=0.01)
    for score in (fine, over):
        scores = torch.tensor([score, score - 1], dtype=dtype, device=device)
        expected = torch.tensor([1 / (1 + math.exp(-1)), 1 / (1 + math.e)], device=device)
        for safe in (softmax.stable, stable_by_blocks):
            # fp16 rounds the scores themselves, in steps of 2**-7 here.
            tolerance = 2**-8 if dtype == torch.float16 else 1e-6
            torch.testing.assert_close(safe(scores).float(), expected, rtol=0, atol=tolerance)
    alone = torch.tensor([[fine, 0.0], [over, 0.0]], dtype=dtype, device=device)
    below, above = naive(alone)
    assert below.isfinite().all()
    assert above[0].isnan()
    # The sum leaves the range before a power does, and then no NaN tells: the weights are zeros.
    count = 7
    together = torch.full((count,), fine - 0.5 * math.log(count), dtype=dtype, device=device)
    assert (naive(together[:1]) == 1).all()
    assert (naive(together) == 0).all()
    for safe in (softmax.stable, stable_by_blocks):
        equal = torch.full_like(together, 1 / count)
        torch.testing.assert_close(safe(together), equal)


@every("function", [softmax.stable, stable_by_blocks])
@every("dim", [0, 1, 2, -1])
def test_weights_along_any_dimension(function, dim, randn):
    scores = randn(2, 5, 7)
    expected = torch.softmax(scores, dim)
    torch.testing.assert_close(function(scores, dim=dim), expected, rtol=16 * EPS, atol=0)


@SAFE
def test_weights_and_gradients_against_the_oracle(function, scores, value):
    _, expected = attention(scores, value)
    weights = function(scores)
    torch.testing.assert_close(weights, expected, rtol=32 * EPS, atol=0)
    assert (weights[scores == -torch.inf] == 0).all()
    assert (weights[0, 1] == 0).all()

    (gradient,) = gradients(function, scores)
    assert gradient.isfinite().all()
    assert (gradient[scores == -torch.inf] == 0).all()
    alive = (scores > -torch.inf).any(-1)
    (expected,) = gradients(lambda s: torch.softmax(s, -1), scores)
    torch.testing.assert_close(gradient[alive], expected[alive], rtol=0, atol=16 * EPS)


@SAFE
def test_first_and_second_derivatives(function, randn):
    scores = randn(3, 5)
    scores.requires_grad_()
    assert torch.autograd.gradcheck(function, scores)
    assert torch.autograd.gradgradcheck(function, scores)


@SAFE
@every("dtype", DTYPES[:3])
def test_error_stays_within_budget(function, dtype, randn):
    """At most 1.5 times the relative error of torch.softmax on the same input, against float64."""
    scores = 4 * randn(101, 97)
    scores = scores.to(dtype)
    exact = torch.softmax(scores.double(), -1)

    def error(weights):
        assert weights.dtype == dtype
        return (weights.double() / exact - 1).square().mean().sqrt()

    assert error(function(scores)) <= 1.5 * error(torch.softmax(scores, -1))


def test_relative_error_is_as_documented(device, generator):
    """(max s - s + ln m + 3) eps, measured in float32 over rows of spread up to 80."""
    m = 97
    scores = torch.rand(101, m, device=device, generator=generator) * torch.linspace(
        1, 80, 101, device=device
    ).unsqueeze(-1)
    exact = torch.softmax(scores.double(), -1)
    error = (softmax.stable(scores).double() - exact).abs() / exact
    gap = scores.amax(-1, keepdim=True) - scores
    assert (error <= (gap + math.log(m) + 3) * torch.finfo(torch.float32).eps).all()


@SAFE
def test_half_precision_sums_do_not_overflow(function, device):
    """70 000 equal scores: their sum is beyond float16's 65 504, each weight is not 0."""
    if function is stable_by_blocks:
        function = functools.partial(softmax.online, block_size=30_011)
    weights = function(torch.zeros(70_000, dtype=torch.float16, device=device))
    exact = torch.tensor(1 / 70_000, dtype=torch.float64).half().to(device)
    assert (weights == exact).all()


@SAFE
@every("poison", [torch.nan, torch.inf])
def test_nan_and_inf_fill_their_row_and_no_other(function, poison, device):
    scores = torch.zeros(2, 7, device=device)
    scores[0, 4] = poison
    weights = function(scores)
    assert weights[0].isnan().all()
    torch.testing.assert_close(weights[1], torch.full((7,), 1 / 7, device=device))


@SAFE
def test_no_keys_no_weights(function, device):
    assert function(torch.zeros(3, 0, device=device)).shape == (3, 0)


@every("block_size", [1, 2, 3, 5, 7, 11])
def test_any_block_size_gives_the_same_weights(block_size, scores):
    online = functools.partial(softmax.online, block_size=block_size)
    torch.testing.assert_close(online(scores), softmax.stable(scores), rtol=32 * EPS, atol=0)
    torch.testing.assert_close(
        gradients(online, scores), gradients(softmax.stable, scores), rtol=0, atol=32 * EPS
    )


def test_rising_and_falling_scores_in_blocks(device):
    """The rescaling of the running sum happens at every block, or at none."""
    rising = torch.arange(0, 1700, 100, device=device, dtype=torch.float64)
    for scores in (rising, rising.flip(0)):
        weights = softmax.online(scores, block_size=2)
        torch.testing.assert_close(weights, torch.softmax(scores, -1), rtol=32 * EPS, atol=0)


def test_subtracting_the_wrong_maximum_is_no_remedy(device):
    """One maximum for the whole tensor instead of one a row: rows far below it are 0/0."""
    scores = torch.tensor([[0.0, 1.0], [-900.0, -901.0]], device=device, dtype=torch.float64)
    powers = torch.exp(scores - scores.max())
    assert (powers / powers.sum(-1, keepdim=True))[1].isnan().all()
    assert naive(scores)[1].isnan().all()
    assert softmax.stable(scores).isfinite().all()


# ---- merging partial results


def cut(scores, value, *groups):
    """Attention over each group of keys."""
    return [softmax.partial_attention(scores[..., keys], value[..., keys, :]) for keys in groups]


def compositions(total):
    """Every way to cut ``total`` keys into consecutive groups."""
    for cuts in range(2 ** (total - 1)):
        ends = [i + 1 for i in range(total - 1) if cuts >> i & 1]
        yield [list(range(a, b)) for a, b in zip([0, *ends], [*ends, total], strict=True)]


@pytest.mark.claim("partial-results-merge")
def test_every_cut_of_the_keys_merges_to_attention_over_all(scores, value):
    expected, _ = attention(scores, value)
    whole = softmax.partial_attention(scores, value)
    torch.testing.assert_close(whole.output, expected, rtol=0, atol=16 * EPS)
    for groups in compositions(7):
        parts = cut(scores, value, *groups)
        for merged in (
            functools.reduce(softmax.merge, parts),
            functools.reduce(lambda rest, part: softmax.merge(part, rest), reversed(parts)),
        ):
            torch.testing.assert_close(merged.output, expected, rtol=0, atol=16 * EPS)
            torch.testing.assert_close(
                merged.log_sum_exp(), torch.logsumexp(scores, -1), rtol=4 * EPS, atol=8 * EPS
            )


def test_scattered_and_empty_parts_merge_with_their_gradients(scores, value):
    """Keys dealt out at random, empty parts among them, merged as a tree."""
    generator = torch.Generator().manual_seed(2)

    def merged(scores, value):
        owners = torch.randint(4, (7,), generator=generator)
        owners[owners == 2] = 1  # nobody's keys: an empty part
        parts = cut(
            scores, value, *[(owners == owner).nonzero().flatten().tolist() for owner in range(4)]
        )
        return softmax.merge(softmax.merge(*parts[:2]), softmax.merge(*parts[2:])).output

    reference = gradients(lambda s, v: softmax.stable(s) @ v, scores, value)
    expected, _ = attention(scores, value)
    for _ in range(20):
        torch.testing.assert_close(merged(scores, value), expected, rtol=0, atol=16 * EPS)
        found = gradients(merged, scores, value)
        assert all(gradient.isfinite().all() for gradient in found)
        torch.testing.assert_close(found, reference, rtol=0, atol=64 * EPS)


@pytest.mark.claim("averaging-parts-is-wrong")
def test_averaging_outputs_without_their_normalisers_is_wrong(scores, value):
    a, b = cut(scores, value, range(3), range(3, 7))
    expected, _ = attention(scores, value)
    assert ((a.output + b.output) / 2 - expected).abs().max() > 0.1
    # Two parts with one sum each, forgetting that they were relative to different maxima.
    unscaled = (a.output * a.normaliser + b.output * b.normaliser) / (a.normaliser + b.normaliser)
    assert (unscaled - expected).nan_to_num().abs().max() > 0.1


def test_a_kernel_with_output_and_log_sum_exp_gives_a_partial(scores, value):
    """Values and gradients, those through the log-sum-exp included."""

    def kernel(scores, value):
        lse = softmax.log_sum_exp(scores)
        return softmax.Partial(
            softmax.stable(scores) @ value, lse[..., None], torch.ones_like(lse)[..., None]
        )

    def merged(scores, value):
        parts = [kernel(scores[..., keys], value[:, keys]) for keys in (slice(3), slice(3, 7))]
        return softmax.merge(*parts)

    def whole(scores, value):
        return softmax.stable(scores) @ value

    expected, _ = attention(scores, value)
    torch.testing.assert_close(merged(scores, value).output, expected, rtol=0, atol=16 * EPS)
    found = gradients(lambda s, v: merged(s, v).output, scores, value)
    assert all(gradient.isfinite().all() for gradient in found)
    torch.testing.assert_close(found, gradients(whole, scores, value), rtol=0, atol=64 * EPS)

    inputs = scores.clone().requires_grad_()
    (weights,) = torch.autograd.grad(merged(inputs, value).log_sum_exp().sum(), inputs)
    torch.testing.assert_close(weights, softmax.stable(scores), rtol=0, atol=16 * EPS)


def test_maximum_and_sum_apart_are_more_precise_than_their_log_sum_exp(device, generator):
    """Beside a score of 10 000 a float32 log-sum-exp moves in steps of 2**-10."""
    scores = 10_000 + torch.randn(101, 7, device=device, generator=generator)
    value = torch.randn(7, 3, device=device, generator=generator)
    exact = torch.softmax(scores.double(), -1) @ value.double()

    a, b = cut(scores, value, range(3), range(3, 7))
    apart = softmax.merge(a, b).output
    rounded = [
        softmax.Partial(part.output, part.log_sum_exp()[..., None], torch.ones_like(part.maximum))
        for part in (a, b)
    ]
    joined = softmax.merge(*rounded).output
    assert (apart - exact).abs().max() < 1e-6
    assert 1e-5 < (joined - exact).abs().max() < 2**-10


def test_merging_does_not_overflow_on_large_values(device):
    """Sums of e^(s - max) v over four such values pass float32's 3.4e38; their average does not."""
    scores = torch.zeros(1, 4, device=device)
    value = torch.full((4, 1), 3e38, device=device)
    assert (torch.exp(scores) @ value).isinf()
    merged = softmax.merge(*cut(scores, value, [0, 1], [2, 3]))
    torch.testing.assert_close(merged.output, value[:1])


def test_partial_results_of_half_precision_are_kept_in_float32(device, generator):
    scores = torch.randn(5, 7, device=device, generator=generator).bfloat16()
    value = torch.randn(7, 3, device=device, generator=generator).bfloat16()
    merged = softmax.merge(*cut(scores, value, range(2), range(2, 7)))
    assert {tensor.dtype for tensor in merged} == {torch.float32}
    exact = torch.softmax(scores.double(), -1) @ value.double()
    torch.testing.assert_close(merged.output.double(), exact, rtol=0, atol=1e-6)


def test_values_that_do_not_fit_the_keys_are_named(device):
    scores, value = torch.zeros(5, 7, device=device), torch.zeros(3, 2, device=device)
    message = r"^value: expected shape \(\.\.\., m, d_v\) .* got .* Cut both at the same keys\.$"
    for wrong in ((scores, value), (scores, value[:, 0]), (scores[0], value)):
        with pytest.raises(ValueError, match=message):
            softmax.partial_attention(*wrong)


# ---- log-sum-exp and entropy


@every("dim", [0, 1, -1])
def test_log_sum_exp(dim, scores):
    torch.testing.assert_close(
        softmax.log_sum_exp(scores, dim=dim),
        torch.logsumexp(scores, dim),
        rtol=4 * EPS,
        atol=8 * EPS,
    )


def test_log_sum_exp_of_the_extremes(device):
    inf = torch.inf
    rows = torch.tensor([[1e4, 1e4], [-1e4, -inf], [-inf, -inf], [inf, 0.0]], device=device)
    expected = torch.tensor([1e4 + math.log(2), -1e4, -inf, inf], device=device)
    torch.testing.assert_close(softmax.log_sum_exp(rows), expected)
    assert softmax.log_sum_exp(torch.tensor([torch.nan, 0.0], device=device)).isnan()
    assert softmax.log_sum_exp(rows[:, :0]).tolist() == [-inf] * 4
    assert softmax.log_sum_exp(rows[0].bfloat16()).dtype == torch.bfloat16


@pytest.mark.claim("gradient-of-log-sum-exp")
def test_the_gradient_of_log_sum_exp_is_softmax(scores):
    def through(function):
        inputs = scores.clone().requires_grad_()
        return torch.autograd.grad(function(inputs, dim=-1).sum(), inputs)[0]

    weights = softmax.stable(scores)
    torch.testing.assert_close(through(softmax.log_sum_exp), weights, rtol=16 * EPS, atol=0)
    assert through(torch.logsumexp)[0, 1].isnan().all()  # the row without keys


@pytest.mark.claim("softmax-maximises")
def test_softmax_maximises_expected_score_plus_entropy(device, generator, randn):
    """max_p <p, x> + alpha H(p) = alpha ln sum e^(x/alpha), reached by softmax(x/alpha) alone."""
    x = randn(7)
    for alpha in (0.1, 1.0, 7.0):

        def worth(p, alpha=alpha):
            return p @ x + alpha * softmax.entropy(p)

        best = alpha * softmax.log_sum_exp(x / alpha)
        weights = softmax.stable(x / alpha)
        torch.testing.assert_close(worth(weights), best, rtol=0, atol=64 * EPS)
        others = torch.rand(1000, 7, device=device, generator=generator, dtype=torch.float64) ** 3
        others = others / others.sum(-1, keepdim=True)
        # What another p loses is alpha times its Kullback-Leibler divergence from softmax.
        divergence = (others * (others / weights).log()).sum(-1)
        torch.testing.assert_close(worth(others), best - alpha * divergence, rtol=0, atol=1e-13)
        assert (divergence > 0).all()


def test_entropy(device):
    weights = torch.tensor([[0.25] * 4, [1.0, 0, 0, 0], [0.5, 0.5, 0, 0]], device=device)
    expected = torch.tensor([math.log(4), 0.0, math.log(2)], device=device)
    torch.testing.assert_close(softmax.entropy(weights), expected)
    torch.testing.assert_close(softmax.entropy(weights.T, dim=0), expected)
    assert softmax.entropy(weights.half()).dtype == torch.float16
    assert softmax.entropy(weights * torch.nan).isnan().all()


def test_entropy_has_finite_gradients_at_weights_of_zero(scores):
    (gradient,) = gradients(lambda s: softmax.entropy(softmax.stable(s)), scores)
    assert gradient.isfinite().all()
    inputs = scores.clone().requires_grad_()
    weights = softmax.stable(inputs)
    (poisoned,) = torch.autograd.grad(-(weights * weights.log()).nansum(), inputs)
    assert poisoned.isnan().any()  # the usual formula


@pytest.mark.claim("entropy-slope")
def test_entropy_falls_by_beta_times_the_variance_of_the_scores(device, randn):
    """dH/d beta = -beta Var_p(x) for p = softmax(beta x)."""
    x = randn(5, 7)
    for beta in (0.0, 0.125, 1.0, 3.0):
        factor = torch.full((5, 1), beta, device=device, dtype=torch.float64, requires_grad=True)
        weights = softmax.stable(factor * x)
        (slope,) = torch.autograd.grad(softmax.entropy(weights).sum(), factor)
        weights = weights.detach()
        mean = (weights * x).sum(-1, keepdim=True)
        variance = (weights * (x - mean) ** 2).sum(-1, keepdim=True)
        torch.testing.assert_close(slope, -beta * variance, rtol=0, atol=64 * EPS)


# ---- the derivative


@pytest.mark.claim("softmax-jacobian")
@every("alpha", [1.0, 3.0, 8.0])
def test_jacobian_against_autograd(alpha, randn):
    """With s = x/alpha a factor 1/alpha belongs to the derivative; without it, it is off."""
    x = randn(7)
    found = softmax.jacobian(softmax.stable(x / alpha), scale=1 / alpha)
    expected = torch.func.jacrev(lambda x: torch.softmax(x / alpha, -1))(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=4 * EPS)
    torch.testing.assert_close(found, found.T, rtol=0, atol=0)
    torch.testing.assert_close(found.sum(-1), torch.zeros_like(x), rtol=0, atol=4 * EPS)
    if alpha != 1.0:
        assert (softmax.jacobian(softmax.stable(x / alpha)) - expected).abs().max() > 0.05


@pytest.mark.claim("softmax-acts-on-a-vector")
def test_softmax_of_a_single_number_has_no_derivative_worth_the_name(device):
    """Softmax acts on the vector: of one number it is 1, whatever the number."""
    one = torch.tensor([[-4.0], [0.0], [9.0]], device=device)
    weights = softmax.stable(one)
    assert (weights == 1).all()
    assert (softmax.jacobian(weights) == 0).all()


def test_jacobian_along_another_dimension(scores):
    weights = softmax.stable(scores, dim=1)
    found = softmax.jacobian(weights, dim=1)
    assert found.shape == (2, 7, 5, 5)
    torch.testing.assert_close(found, softmax.jacobian(weights.mT), rtol=0, atol=0)


@pytest.mark.claim("jacobian-norm-half")
@pytest.mark.claim("softmax-jacobian-is-bounded")
def test_trace_and_norm_of_the_jacobian(device, randn):
    """Trace 1 - sum p²; norm at most 1/2, reached at two equal weights."""
    scores = 3 * randn(101, 7)
    weights = softmax.stable(scores)
    jacobian = softmax.jacobian(weights)
    trace = jacobian.diagonal(dim1=-2, dim2=-1).sum(-1)
    torch.testing.assert_close(trace, 1 - weights.square().sum(-1), rtol=0, atol=8 * EPS)
    assert (torch.linalg.matrix_norm(jacobian, ord=2) <= 0.5).all()
    equal = softmax.jacobian(torch.tensor([0.5, 0.5, 0.0], device=device, dtype=torch.float64))
    assert torch.linalg.matrix_norm(equal, ord=2).item() == pytest.approx(0.5, abs=4 * EPS)


@pytest.mark.claim("two-ends-of-the-factor")
def test_the_two_ends_of_the_scale(device):
    """A gap of 8 between two raw scores: the derivative is largest in between."""
    expected = {0.25: 5.06e-14, 1.0: 3.35e-4, 8.0: 2.46e-2, 64.0: 3.89e-3}
    for alpha, number in expected.items():
        x = torch.tensor([8.0, 0.0], device=device, dtype=torch.float64)
        weights = softmax.stable(x / alpha)
        # From the smaller weight: 1 - p of a p near 1 would lose its digits.
        derivative = softmax.jacobian(weights, scale=1 / alpha)[1, 1].item()
        assert derivative == pytest.approx(number, rel=2e-3)

    # Large alpha: the Jacobian of the softmax stays, its chain factor 1/alpha vanishes.
    m = 7
    x = torch.linspace(-1, 1, m, device=device, dtype=torch.float64)
    flat = (torch.eye(m, dtype=torch.float64, device=device) - 1 / m) / m
    alpha = 1e8
    torch.testing.assert_close(
        softmax.jacobian(softmax.stable(x / alpha)), flat, rtol=0, atol=1 / alpha
    )


def test_jacobian_product_is_both_derivatives(scores, generator):
    alpha = 3.0
    alive = (scores > -torch.inf).any(-1)
    vector = torch.randn(
        scores.shape, device=scores.device, generator=generator, dtype=scores.dtype
    )
    weights = softmax.stable(scores)
    found = softmax.jacobian_product(weights, vector, scale=1 / alpha)
    full = softmax.jacobian(weights, scale=1 / alpha) @ vector[..., None]
    torch.testing.assert_close(found, full[..., 0], rtol=0, atol=16 * EPS)

    def function(x):
        return torch.softmax(x / alpha, -1)

    x = (alpha * scores)[alive]
    for derivative in (torch.autograd.functional.jvp, torch.autograd.functional.vjp):
        _, expected = derivative(function, x, vector[alive])
        torch.testing.assert_close(found[alive], expected, rtol=0, atol=16 * EPS)
    along = softmax.jacobian_product(weights.mT, vector.mT, dim=-2, scale=1 / alpha)
    torch.testing.assert_close(along.mT, found, rtol=0, atol=4 * EPS)


# ---- softmax and division by the sum


@pytest.mark.claim("logarithmic-mean-law")
def test_softmax_separates_a_pair_more_iff_its_logarithmic_mean_exceeds_one(device, generator):
    a, b = 0.05 + 3 * torch.rand(2, 50_000, device=device, generator=generator, dtype=torch.float64)
    pairs = torch.stack([torch.maximum(a, b), torch.minimum(a, b)], dim=-1)
    by_softmax, by_sum = (
        (weights[:, 0] / weights[:, 1])
        for weights in (softmax.stable(pairs), pairs / pairs.sum(-1, keepdim=True))
    )
    a, b = pairs.unbind(-1)
    logarithmic_mean = (a - b) / (a.log() - b.log())
    sharper = by_softmax > by_sum
    assert torch.equal(sharper, logarithmic_mean > 1)
    assert 0.1 < sharper.double().mean() < 0.9  # both cases were met


@pytest.mark.claim("softmax-is-not-a-power")
def test_softmax_raises_e_to_the_scores_and_not_the_scores_to_a_power(device):
    """Ratios are e^(difference); a power of the scores depends on their quotient instead."""
    scores = torch.tensor([2.0, 4.0, 5.0], device=device, dtype=torch.float64)
    weights = softmax.stable(scores)
    assert (weights[1] / weights[0]).item() == pytest.approx(math.exp(2), rel=8 * EPS)
    powers, other = torch.exp(scores), scores**math.e
    torch.testing.assert_close(powers / powers.sum(), weights, rtol=8 * EPS, atol=0)
    assert (other / other.sum() - weights).abs().max() > 0.05


@pytest.mark.claim("softmax-jacobian-is-bounded")
def test_only_the_jacobian_of_softmax_is_bounded(device):
    for total in (1e-1, 1e-4, 1e-7):
        scores = torch.tensor([1.0, -1.0 + total], device=device, dtype=torch.float64)
        by_sum = torch.func.jacrev(lambda s: s / s.sum())(scores)
        by_softmax = softmax.jacobian(softmax.stable(scores))
        assert torch.linalg.matrix_norm(by_sum, ord=2) > 1 / total
        assert torch.linalg.matrix_norm(by_softmax, ord=2) <= 0.5


# ---- what all of them share

PLAIN = [
    softmax.stable,
    stable_by_blocks,
    softmax.log_sum_exp,
    softmax.jacobian,
    softmax.entropy,
]


def product(weights):
    return softmax.jacobian_product(weights, weights.flip(-1))


def two_parts(scores):
    value = torch.ones(7, 3, dtype=scores.dtype, device=scores.device)
    parts = [
        softmax.partial_attention(scores[..., keys], value[keys])
        for keys in (slice(3), slice(3, 7))
    ]
    return softmax.merge(*parts).output


@every("function", [*PLAIN, product, two_parts])
def test_each_function_compiles_whole_and_maps_over_a_batch(function, device, generator):
    inputs = torch.rand(2, 5, 7, device=device, generator=generator, dtype=torch.float64)
    before = inputs.clone()
    expected, gradient = function(inputs), gradients(function, inputs)
    assert torch.equal(inputs, before)
    # aot_eager: forward and backward traced whole, without building machine code.
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for other in (compiled, torch.func.vmap(function)):
        torch.testing.assert_close(other(inputs), expected, rtol=16 * EPS, atol=16 * EPS)
        found = gradients(other, inputs)
        torch.testing.assert_close(found, gradient, rtol=64 * EPS, atol=64 * EPS)


@every("dtype", DTYPES)
@every("function", [*PLAIN, product])
def test_the_dtype_that_comes_in_goes_out(function, dtype, device, generator):
    inputs = torch.rand(5, 7, device=device, generator=generator, dtype=torch.float64).to(dtype)
    found = function(inputs)
    assert found.dtype == dtype
    assert found.device == inputs.device
    exact = function(inputs.double())
    # At most four roundings of numbers of about 1 in the dtype itself.
    tolerance = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), exact, rtol=tolerance, atol=tolerance)


@every(
    ("function", "name"),
    [(function, "scores") for function in PLAIN[:3]]
    + [(function, "weights") for function in [*PLAIN[3:], product]]
    + [(lambda s: softmax.partial_attention(s, torch.zeros(7, 3)), "scores")]
    + [(lambda v: softmax.partial_attention(torch.zeros(5, 7), v), "value")],
)
def test_integers_are_refused(function, name, device):
    message = (
        rf"{name}: .* got torch\.int64\. .* torch\.as_tensor\({name}, dtype=torch\.float32\)\."
    )
    with pytest.raises(TypeError, match=f"^{message}"):
        function(torch.ones(5, 7, dtype=torch.int64, device=device))


def test_lists_are_refused():
    with pytest.raises(TypeError, match=r"^scores: expected a torch\.Tensor .* got list\."):
        softmax.stable([1.0, 2.0])


@every("wrong", [0, -3, 2.5, True, "64"])
def test_a_wrong_block_size_is_named(wrong, device):
    message = rf"^block_size: expected an integer of 1 or more, got {wrong!r}\. .* any number gives"
    with pytest.raises(ValueError if wrong in (0, -3) else TypeError, match=message):
        softmax.online(torch.zeros(7, device=device), block_size=wrong)
