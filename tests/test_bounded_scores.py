import math

import numpy as np
import pytest
import torch

import attnref
from attnref import bounded_scores
from tests.variants.every import every

NORMS = (bounded_scores.qk_unit_norm, bounded_scores.qk_rms_norm)


def rms_norm_without_eps(query, key):
    return bounded_scores.qk_rms_norm(query, key, eps=1e-30)


def largest_weight(keys, bound):
    """What one of ``keys`` keys can weigh when all logits lie within ``bound`` of 0."""
    return 1 / (1 + (keys - 1) * math.exp(-2 * bound))


def test_norms_follow_their_formulas(randn):
    query, key = randn(2, 5, 7), randn(2, 11, 7)
    kept = query.clone(), key.clone()
    q, k = query.cpu().numpy(), key.cpu().numpy()
    for ours, vectors in zip(bounded_scores.qk_unit_norm(query, key), (q, k), strict=True):
        unit = vectors / np.sqrt((vectors**2).sum(-1, keepdims=True))
        np.testing.assert_allclose(ours.cpu().numpy(), unit, rtol=1e-14)
    for ours, vectors in zip(bounded_scores.qk_rms_norm(query, key, eps=0.1), (q, k), strict=True):
        rms = vectors / np.sqrt((vectors**2).mean(-1, keepdims=True) + 0.1)
        np.testing.assert_allclose(ours.cpu().numpy(), rms, rtol=1e-14)
    assert torch.equal(query, kept[0])
    assert torch.equal(key, kept[1])


@pytest.mark.claim("one-factor-two-names")
def test_rms_is_the_unit_vector_times_the_root_of_the_width(randn):
    query, key = randn(5, 7), randn(11, 7)
    for rms, unit in zip(
        rms_norm_without_eps(query, key), bounded_scores.qk_unit_norm(query, key), strict=True
    ):
        torch.testing.assert_close(rms, unit * math.sqrt(7), rtol=1e-14, atol=0)


@pytest.mark.claim("unit-vectors-bound-the-weight")
@every("temperature", [0.5, 2.0, 10.0])
def test_no_weight_exceeds_the_bound_and_opposite_keys_reach_it(temperature, device, randn):
    keys, width = 13, 5
    bound = largest_weight(keys, temperature)
    query, key = bounded_scores.qk_unit_norm(100 * randn(97, width), 100 * randn(keys, width))
    weights = attnref.attention_weights(query, key, scale=temperature)
    assert weights.max() <= bound
    # The extreme: one key along the query, all others against it.
    extreme = -query[:1].repeat(keys, 1)
    extreme[0] *= -1
    reached = attnref.attention_weights(query[:1], extreme, scale=temperature).max().item()
    assert reached == pytest.approx(bound, rel=1e-12)
    # Without the norms nothing holds: the same vectors, grown, put all weight on one key.
    grown = attnref.attention_weights(100 * query, 100 * extreme, scale=temperature)
    assert grown.max() > bound


@pytest.mark.claim("normalised-scores-forget-the-initialisation")
@every("deviation", [0.02, 1.0, 50.0])
def test_normalised_scores_have_the_promised_variance_whatever_the_initialisation(deviation, randn):
    """1/d_k for cosines and 1 with 1/sqrt(d_k) for mean square 1, also for small projections."""
    pairs, width = 20_000, 16
    query, key = deviation * randn(pairs, 1, width), deviation * randn(pairs, 1, width)
    for norm, scale, expected in (
        (bounded_scores.qk_unit_norm, 1.0, 1 / width),
        (rms_norm_without_eps, width**-0.5, 1.0),
    ):
        normal_query, normal_key = norm(query, key)
        logits = scale * (normal_query * normal_key).sum(-1)
        # Kurtosis of a cosine of random directions is 3 d/(d+2), below 3; five deviations.
        bound = 5 * math.sqrt(2 / pairs)
        assert logits.square().mean().item() == pytest.approx(expected, rel=bound)


@pytest.mark.claim("normalised-scores-forget-the-initialisation")
def test_what_is_forgotten_is_the_size_and_not_the_directions(randn):
    """A bias as large as the projection, or two directions for all, give another variance."""
    pairs, width = 20_000, 16

    def variance_of_the_root(*tensors):
        query, key = rms_norm_without_eps(*tensors)
        return (width**-0.5 * (query * key).sum(-1)).square().mean().item()

    query, key = randn(pairs, 1, width), randn(pairs, 1, width)
    assert variance_of_the_root(query, key) == pytest.approx(1, abs=0.05)
    bias = randn(width)
    assert variance_of_the_root(query + bias, key + bias) > 2
    two = randn(2, width)
    assert variance_of_the_root(query[..., :2] @ two, key[..., :2] @ two) > 4


@pytest.mark.claim("normalised-gradient-is-orthogonal")
@pytest.mark.parametrize("norm", [bounded_scores.qk_unit_norm, rms_norm_without_eps])
def test_the_gradient_is_orthogonal_to_the_query_and_shrinks_as_it_grows(norm, randn):
    query, key, value, upstream = randn(5, 7), randn(11, 7), randn(11, 3), randn(5, 3)
    gradients = []
    for size in (1.0, 10.0):
        grown = (size * query).requires_grad_()
        output = attnref.scaled_dot_product_attention(*norm(grown, key), value, scale=0.7)
        (output * upstream).sum().backward()
        gradients.append(grown.grad)
        along = (grown.grad * query).sum(-1) / (grown.grad.norm(dim=-1) * query.norm(dim=-1))
        assert along.abs().max() < 1e-12
    torch.testing.assert_close(gradients[1], gradients[0] / 10, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("norm", NORMS)
def test_gradients_of_the_norms_are_right(norm, randn):
    query, key = randn(2, 3).requires_grad_(), randn(5, 3).requires_grad_()
    assert torch.autograd.gradcheck(norm, (query, key))


@every("norm", NORMS)
@every("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_norms_of_large_vectors_do_not_overflow_and_zeros_stay(norm, dtype, device):
    query = torch.full((2, 128), 3e4, device=device, dtype=dtype)
    query[1] = 0.0
    ours, _ = norm(query, query)
    assert ours.dtype == dtype
    component = 1.0 if norm is bounded_scores.qk_rms_norm else 128**-0.5
    expected = torch.full((128,), component, device=device, dtype=dtype)
    torch.testing.assert_close(ours[0], expected, rtol=torch.finfo(dtype).eps, atol=0)
    assert (ours[1] == 0).all()


@every("dtype", [torch.float64, torch.float32, torch.bfloat16])
@every("size", [1e-30, 1e-13, 2e19, 3e38])
def test_norms_of_vectors_of_any_length(size, dtype, device):
    vectors = torch.tensor([[1.0, -1.0, 1.0, 1.0]], device=device, dtype=dtype)
    for unit in bounded_scores.qk_unit_norm(size * vectors, size * vectors):
        torch.testing.assert_close(unit, vectors / 2)
    for rms in bounded_scores.qk_rms_norm(size * vectors, size * vectors, eps=1e-90):
        torch.testing.assert_close(rms, vectors)


@every("dtype", [torch.float64, torch.float16])
@every("norm", NORMS)
def test_a_vector_of_zeros_has_a_finite_gradient(norm, dtype, device):
    query = torch.zeros(2, 3, device=device, dtype=dtype, requires_grad=True)
    gradient = torch.autograd.grad(norm(query, query)[0].sum(), query)[0]
    expected = 0.0 if norm is bounded_scores.qk_unit_norm else 1000.0  # 1 / sqrt(eps)
    torch.testing.assert_close(gradient, torch.full_like(gradient, expected))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_softcap_is_rounded_once(dtype, device):
    scores = torch.tensor([1e-5, 0.1, 30.0, -29.0, 47.0], device=device, dtype=dtype)
    expected = (50.0 * torch.tanh(scores.double() / 50.0)).to(dtype)
    assert torch.equal(bounded_scores.softcap(scores, cap=50.0), expected)


def test_softcap_follows_the_formula_and_leaves_small_scores(randn):
    scores = (30 * randn(5, 7)).requires_grad_()
    ours = bounded_scores.softcap(scores, cap=20.0)
    (slope,) = torch.autograd.grad(ours.sum(), scores)
    scores, ours = scores.detach(), ours.detach()
    torch.testing.assert_close(slope, 1 - (ours / 20.0) ** 2, rtol=1e-12, atol=1e-14)
    expected = 20.0 * np.tanh(scores.cpu().numpy() / 20.0)
    np.testing.assert_allclose(ours.cpu().numpy(), expected, rtol=1e-14)
    assert ours.abs().max() <= 20.0
    assert torch.equal(ours.flatten().argsort(), scores.flatten().argsort())
    small = torch.linspace(-1, 1, 11, dtype=torch.float64)
    # |x - tanh x| <= |x|³/3.
    assert ((bounded_scores.softcap(small, cap=50.0) - small).abs() <= 1 / (3 * 50.0**2)).all()


@pytest.mark.claim("cap-before-the-mask")
def test_capping_after_the_mask_gives_weight_to_forbidden_keys(device):
    """The cap turns -inf into -cap: small caps let a forbidden key through."""
    mask = torch.tensor([True, True, False], device=device)
    scores = torch.tensor([[0.5, -0.5, 3.0]], device=device)
    wrong = torch.softmax(
        bounded_scores.softcap(scores.masked_fill(~mask, -torch.inf), cap=2.0), -1
    )
    right = torch.softmax(
        bounded_scores.softcap(scores, cap=2.0).masked_fill(~mask, -torch.inf), -1
    )
    assert wrong[0, 2] > 0.05
    assert right[0, 2] == 0


@pytest.mark.claim("capped-weights-obey-the-bound")
def test_capped_weights_obey_the_bound(device):
    scores = torch.full((1, 13), -1e4, device=device, dtype=torch.float64)
    scores[0, 4] = 1e4
    weights = torch.softmax(bounded_scores.softcap(scores, cap=3.0), -1)
    assert weights.max().item() == pytest.approx(largest_weight(13, 3.0), rel=1e-12)
    assert torch.softmax(scores, -1).max() == 1.0


X = torch.ones(5, 2)


@every(
    ("function", "arguments", "message"),
    [
        *((norm, {"query": torch.tensor(1.0)}, r"query: .* d_k\) .* got \(\)") for norm in NORMS),
        *((norm, {"key": torch.ones(3, 0)}, r"key: .* got \(3, 0\)\. Its last") for norm in NORMS),
        *((norm, {"key": torch.ones(7, 3)}, "key: expected last dimension 2") for norm in NORMS),
        (bounded_scores.qk_rms_norm, {"eps": 0.0}, r"eps: .* above 0, got 0\.0.* 1e-6 is usual"),
        (bounded_scores.qk_rms_norm, {"eps": math.nan}, "eps: expected a number above 0, got nan"),
        (bounded_scores.softcap, {"cap": 0.0}, r"cap: .* above 0, got 0\.0.* leave the scores as"),
        (bounded_scores.softcap, {"cap": math.inf}, "cap: expected a finite number .* got inf"),
    ],
)
def test_a_wrong_argument_is_named(function, arguments, message):
    given = {"scores": X} if function is bounded_scores.softcap else {"query": X, "key": X}
    with pytest.raises(ValueError, match=f"^{message}"):
        function(**given | arguments)


def test_bounded_scores_vmap_and_compile(randn):
    query, key = randn(3, 5, 7), randn(3, 11, 7)

    def bounded(query, key):
        unit_query, unit_key = bounded_scores.qk_unit_norm(query, key)
        rms_query, rms_key = bounded_scores.qk_rms_norm(query, key)
        scores = unit_query @ unit_key.mT + rms_query @ rms_key.mT
        return bounded_scores.softcap(scores, cap=2.0)

    together = bounded(query, key)
    torch.testing.assert_close(torch.vmap(bounded)(query, key), together, rtol=1e-13, atol=1e-14)
    compiled = torch.compile(bounded, backend="eager", fullgraph=True)
    assert torch.equal(compiled(query, key), together)
