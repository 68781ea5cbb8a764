"""What the pages claim of saturation: the Jacobian, its spectrum, and what still learns."""

import math

import pytest
import torch

import attnref
from attnref import score_statistics, softmax

EPS = torch.finfo(torch.float64).eps


@pytest.fixture
def rows(device, randn):
    """Weights of 300 rows of 7 keys, from flat to saturated, and the flattest and the barest."""
    size = torch.logspace(-2, 1.5, 300, dtype=torch.float64, device=device)[:, None]
    random = randn(300, 7)
    flat = torch.zeros(1, 7, dtype=torch.float64, device=device)
    bare = torch.tensor([[1e3, 0, 0, 0, 0, 0, 0]], dtype=torch.float64, device=device)
    return softmax.stable(torch.cat([size * random, flat, bare]))  # (302, 7)


@pytest.mark.claim("jacobian-entries-bound")
def test_no_entry_of_the_jacobian_exceeds_what_the_largest_weight_leaves(rows):
    left = 1 - rows.amax(-1)
    assert (softmax.jacobian(rows).abs().amax((-2, -1)) <= left + EPS).all()
    # Nothing smaller would do: near p = 1 an entry reaches the bound up to the factor p.
    sharp = torch.tensor([0.999, 0.001], dtype=torch.float64, device=rows.device)
    assert softmax.jacobian(sharp).max().item() == pytest.approx(0.999 * 0.001, rel=1e-12)


@pytest.mark.claim("jacobian-is-a-covariance")
def test_a_quadratic_form_of_the_jacobian_is_a_variance(rows, generator):
    u = torch.randn(rows.shape, dtype=rows.dtype, device=rows.device, generator=generator)
    J = softmax.jacobian(rows)
    form = (u[:, None] @ J @ u[..., None])[:, 0, 0]
    mean = (rows * u).sum(-1, keepdim=True)
    variance = (rows * (u - mean) ** 2).sum(-1)
    torch.testing.assert_close(form, variance, rtol=0, atol=64 * EPS)
    torch.testing.assert_close(J, J.mT, rtol=0, atol=0)
    assert (J.sum(-1).abs() <= 8 * EPS).all()
    assert (torch.linalg.eigvalsh(J) >= -8 * EPS).all()


@pytest.mark.claim("jacobian-eigenvalues-interlace")
def test_eigenvalues_lie_between_neighbouring_weights(rows):
    weights = rows.sort(-1).values  # rising
    eigenvalues = torch.linalg.eigvalsh(softmax.jacobian(rows))  # rising, the first one is 0
    assert (eigenvalues[:, 0].abs() <= 8 * EPS).all()
    assert (eigenvalues[:, 1:] >= weights[:, :-1] - 8 * EPS).all()
    assert (eigenvalues[:, 1:] <= weights[:, 1:] + 8 * EPS).all()


@pytest.mark.claim("norm-by-the-largest-weight")
def test_the_norm_is_at_most_twice_p_times_1_minus_p(rows):
    norm = torch.linalg.matrix_norm(softmax.jacobian(rows), ord=2)
    assert (norm <= 2 * (rows * (1 - rows)).amax(-1) + 8 * EPS).all()


@pytest.mark.claim("trace-between")
def test_the_trace_is_between_once_and_twice_what_the_largest_weight_leaves(rows):
    left = 1 - rows.amax(-1)
    trace = softmax.jacobian(rows).diagonal(dim1=-2, dim2=-1).sum(-1)
    assert (trace >= left - 8 * EPS).all()
    assert (trace <= 2 * left + 8 * EPS).all()


@pytest.mark.claim("query-gradient-is-a-covariance")
@pytest.mark.parametrize("c", [0.3, 1.0, 4.0])
def test_the_gradient_of_the_query_is_the_covariance_of_worth_and_keys(c, randn):
    q = randn(5)
    k = randn(7, 5)
    g = randn(7)
    p = attnref.attention_weights(q[None], k, scale=c)[0]
    covariance = (p * g) @ k - (p @ g) * (p @ k)
    leaf = q.clone().requires_grad_()
    loss = attnref.attention_weights(leaf[None], k, scale=c)[0] @ g
    (gradient,) = torch.autograd.grad(loss, leaf)
    torch.testing.assert_close(gradient, c * covariance, rtol=0, atol=64 * EPS * c)


@pytest.mark.claim("values-learn-when-saturated")
def test_a_saturated_row_still_teaches_the_value_that_it_reads(device, randn):
    q, k, v = (randn(n, 5) for n in (1, 7, 7))
    k[3] = 1000 * q[0]  # the winner, by far
    q.requires_grad_()
    v.requires_grad_()
    target = torch.ones(1, 5, dtype=torch.float64, device=device)
    loss = (attnref.scaled_dot_product_attention(q, k, v) - target).square().sum()
    to_query, to_value = torch.autograd.grad(loss, (q, v))
    assert to_query.norm() == 0
    expected = torch.zeros_like(to_value)
    expected[3] = 2 * (v[3].detach() - 1)
    torch.testing.assert_close(to_value, expected)


@pytest.mark.claim("low-weights-still-learn")
@pytest.mark.parametrize("n", [64, 4096])
def test_a_flat_row_has_low_weights_and_a_trace_near_1(n, device):
    p = torch.full((n,), 1 / n, dtype=torch.float64, device=device)
    assert 1 - p.square().sum().item() == pytest.approx(1 - 1 / n, rel=1e-12)
    # A g of +1 and -1 in turn loses the factor n, and no more.
    g = torch.ones(n, dtype=torch.float64, device=device)
    g[1::2] = -1
    torch.testing.assert_close(softmax.jacobian_product(p, g), g / n, rtol=1e-12, atol=0)


@pytest.mark.claim("two-stages-of-vanishing")
@pytest.mark.parametrize(
    ("dtype", "rounded", "underflown"), [(torch.float32, 17.0, 105.0), (torch.float64, 37.0, 746.0)]
)
def test_the_winner_stops_learning_long_before_the_loser(dtype, rounded, underflown, device):
    def gradient(lead):
        scores = torch.tensor([lead, 0.0], dtype=dtype, device=device, requires_grad=True)
        return torch.autograd.grad(torch.softmax(scores, -1)[0], scores)[0].tolist()

    winner, loser = gradient(0.8 * rounded)
    assert winner > 0
    assert loser == pytest.approx(-winner, rel=0.1)
    assert gradient(rounded - 1)[0] > 0
    half_a_step = torch.finfo(dtype).eps / 2  # e^-Δ falls below it within this last unit
    assert math.exp(-rounded) < half_a_step < math.exp(1 - rounded)
    winner, loser = gradient(rounded)
    assert winner == 0
    assert loser == pytest.approx(-math.exp(-rounded), rel=1e-5)
    assert gradient(0.8 * underflown)[1] < 0
    assert gradient(underflown) == [0, 0]


@pytest.mark.claim("adam-hides-small-gradients")
def test_the_first_step_of_adam_forgets_the_size_of_the_gradient_down_to_its_epsilon(device):
    """The losers' gradients of float32, at leads of 18 and 25, are 1.5e-8 and 1.4e-11."""
    scores = torch.tensor([[18.0, 0.0], [25.0, 0.0]], device=device, requires_grad=True)
    torch.softmax(scores, -1)[:, 0].sum().backward()
    losers = -scores.grad[:, 1].double()
    sizes = torch.tensor([1.0, 1e-6], dtype=torch.float64, device=device)
    sizes = torch.cat([sizes, losers])
    parameter = torch.zeros_like(sizes).requires_grad_()
    optimiser = torch.optim.Adam([parameter], lr=1.0)  # its epsilon is 1e-8
    (parameter * sizes).sum().backward()
    optimiser.step()
    steps = -parameter.detach()
    torch.testing.assert_close(steps, sizes / (sizes + 1e-8), rtol=1e-6, atol=0)
    assert steps[1] > 0.98
    assert 0.5 < steps[2] < 0.7
    assert 1e-3 < steps[3] < 2e-3


@pytest.mark.claim("cross-entropy-does-not-saturate")
def test_the_gradient_of_softmax_and_cross_entropy_is_the_error_itself(device, generator, randn):
    scores = 30 * randn(97, 7)
    scores.requires_grad_()
    target = torch.randint(7, (97,), device=device, generator=generator)
    loss = -scores.log_softmax(-1).gather(-1, target[:, None]).sum()
    (gradient,) = torch.autograd.grad(loss, scores)
    p = softmax.stable(scores.detach())
    expected = p - torch.nn.functional.one_hot(target, 7)
    torch.testing.assert_close(gradient, expected, rtol=0, atol=16 * EPS)
    wrong = (p.argmax(-1) != target) & (p.amax(-1) > 0.999)
    assert wrong.any()  # saturated on a wrong key, and the gradient is as large as it gets
    assert (gradient[wrong].norm(dim=-1) > 1.4).all()
    # The same rows under a loss of bounded slope, squared error of the weights.
    squared = (torch.softmax(scores, -1) - torch.nn.functional.one_hot(target, 7)).square().sum()
    (small,) = torch.autograd.grad(squared, scores)
    assert (small[wrong].norm(dim=-1) < 0.01).all()


@pytest.mark.claim("best-factor-for-two-keys")
def test_two_keys_teach_most_where_the_factor_times_the_gap_is_1_543(device):
    """It is c p(1 - p) with p = 1/(1 + e^(-c gap)), largest where u tanh(u/2) = 1, u = c gap."""
    low, high = 1.0, 2.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.tanh(middle / 2) < 1 else (low, middle)
    assert low == pytest.approx(1.543, abs=5e-4)
    gap = 8.0
    c = torch.linspace(0.01, 2, 20_000, dtype=torch.float64, device=device)
    p = torch.sigmoid(c * gap)
    best = (c * p * (1 - p)).argmax()
    assert (c[best] * gap).item() == pytest.approx(low, abs=2e-3)
    assert p[best].item() == pytest.approx(0.824, abs=1e-3)


@pytest.mark.claim("newton-crosses-one-unit")
@pytest.mark.parametrize("lead", [8.0, 16.0, 32.0])
def test_on_the_plateau_a_step_of_newton_crosses_one_unit_of_score(lead, device):
    """For f = p of the loser f'/f'' tends to 1 as the winner's lead grows."""
    t = torch.tensor(-lead, dtype=torch.float64, device=device, requires_grad=True)
    p = torch.softmax(torch.stack([t, torch.zeros_like(t)]), -1)[0]
    (first,) = torch.autograd.grad(p, t, create_graph=True)
    (second,) = torch.autograd.grad(first, t)
    # p = e^-lead up to a relative e^-lead, so the ratio is 1 / (1 - 2p).
    assert (first / second).item() == pytest.approx(1, abs=4 * math.exp(-lead) + 1e-12)


@pytest.mark.claim("the-usual-factor-is-not-the-steepest")
def test_a_larger_factor_gives_the_typical_query_more_gradient(device, generator):
    q = torch.randn(1000, 1, 64, device=device, generator=generator)
    k = torch.randn(1000, 64, 64, device=device, generator=generator)
    upstream = torch.randn(1000, 1, 64, device=device, generator=generator)

    def median(times):
        found = score_statistics.measure(q, k, scale=times / 8, upstream=upstream)
        return found.query_gradient.median().item()

    usual, fourfold, far = median(1), median(4), median(32)
    assert fourfold > 4 * usual
    assert far < usual / 4
