"""Dot product, cosine and distance, and what is found with them."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnref import attention_weights, scaled_dot_product_attention, similarity, softmax
from tests.variants.every import every

# "Your journey starts with one step", one row a word.
WORDS = [
    [0.43, 0.15, 0.89],
    [0.55, 0.87, 0.66],
    [0.57, 0.85, 0.64],
    [0.22, 0.58, 0.33],
    [0.77, 0.25, 0.10],
    [0.05, 0.80, 0.55],
]
JOURNEY = 1

EPS = torch.finfo(torch.float64).eps
SCORES = [similarity.dot_scores, similarity.cosine_scores, similarity.euclidean_scores]
each = pytest.mark.parametrize("function", SCORES)


@pytest.fixture
def words(device):
    return torch.tensor(WORDS, device=device, dtype=torch.float64)


@pytest.fixture
def points(randn):
    """Queries (2, 5, 11), keys (2, 7, 11) and values (2, 7, 3)."""

    def draw(*shape):
        return randn(*shape)

    return draw(2, 5, 11), draw(2, 7, 11), draw(2, 7, 3)


def one_pair_at_a_time(function, query, key):
    """The scores from their definitions, by plain arithmetic on one query and one key."""

    def dot(q, k):
        return math.fsum(a * b for a, b in zip(q, k, strict=True))

    formula = {
        similarity.dot_scores: lambda q, k: dot(q, k) / math.sqrt(len(q)),
        similarity.cosine_scores: lambda q, k: dot(q, k) / math.hypot(*q) / math.hypot(*k),
        similarity.euclidean_scores: lambda q, k: -(math.dist(q, k) ** 2),
    }[function]
    rows = [
        [[formula(q, k) for k in keys] for q in queries]
        for queries, keys in zip(query.tolist(), key.tolist(), strict=True)
    ]
    return torch.tensor(rows, dtype=torch.float64, device=query.device)


# ---- the three scores


@each
def test_scores_against_their_definitions(function, points):
    query, key, _ = points
    expected = one_pair_at_a_time(function, query, key)
    # d_k roundings of terms whose sum of sizes is below (|q| + |k|)², about 50 here.
    torch.testing.assert_close(function(query, key), expected, rtol=0, atol=11 * 50 * EPS)
    scaled = function(query, key, scale=0.25)
    plain = function(query, key, scale=1.0)
    torch.testing.assert_close(scaled, 0.25 * plain, rtol=8 * EPS, atol=8 * EPS)


@each
def test_gradients_against_finite_differences(function, points):
    query, key, _ = (tensor.requires_grad_() for tensor in points)
    assert torch.autograd.gradcheck(function, (query, key))


@each
@every("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_lower_precision_rounds_the_result_once(function, dtype, points):
    query, key, _ = (tensor.to(dtype) for tensor in points)
    scores = function(query, key)
    assert scores.dtype == dtype
    exact = function(query.double(), key.double())
    eps = torch.finfo(dtype).eps
    # In float32 the product itself is rounded too: see the bound of the squared distance.
    norms = query.double().norm(dim=-1)[..., :, None] + key.double().norm(dim=-1)[..., None, :]
    computation = (11 + 3) / 2 * torch.finfo(torch.float32).eps * norms**2
    assert ((scores.double() - exact).abs() <= eps / 2 * exact.abs() + computation).all()


@each
def test_leading_dimensions_broadcast(function, points):
    query, key, _ = points
    scores = function(query[:, None], key[None])
    assert scores.shape == (2, 2, 5, 7)
    torch.testing.assert_close(scores[1, 0], function(query[1], key[0]), rtol=0, atol=32 * EPS)


@pytest.mark.parametrize(
    ("dtype", "entry", "expected"),
    [(torch.float16, 30.0, 10_182), (torch.float32, 2e18, 4.5255e37)],
)
def test_queries_are_scaled_before_products_overflow(dtype, entry, expected, device):
    """With d_k = 128 and entries of 30 the product is 115 200, beyond float16's 65 504."""
    query = torch.full((1, 128), entry, dtype=dtype, device=device)
    assert (query @ query.mT).isinf()
    score = similarity.dot_scores(query, query).item()
    assert score == pytest.approx(expected, rel=torch.finfo(torch.float16).eps / 2)


def test_cosine_of_the_longest_shortest_and_zero_vectors(device):
    """Squares of such components overflow or vanish in float32."""
    query = torch.tensor([[3e30, 4e30], [3e-30, 4e-30], [0.0, 0.0]], device=device)
    assert torch.linalg.vector_norm(query, dim=-1)[0].isinf()
    key = torch.tensor([[1.0, 0.0]], device=device)
    query.requires_grad_()
    scores = similarity.cosine_scores(query, key)
    assert scores.flatten().tolist() == pytest.approx([0.6, 0.6, 0.0])
    (gradient,) = torch.autograd.grad(scores.sum(), query)
    assert gradient.isfinite().all()


def test_cosine_ignores_lengths(points):
    query, key, _ = points
    lengths = torch.linspace(0.1, 9, 7, device=key.device, dtype=key.dtype)[:, None]
    scores = similarity.cosine_scores(query, key)
    assert (scores.abs() <= 1 + 4 * EPS).all()
    torch.testing.assert_close(
        similarity.cosine_scores(7 * query, lengths * key), scores, rtol=0, atol=4 * EPS
    )


def test_distances_of_one_product_lose_digits_far_from_the_origin(device, generator):
    """The bound of the docstring holds; without a common vector of 3 000 nothing is lost."""
    query = torch.randn(5, 11, device=device, generator=generator)
    key = torch.randn(7, 11, device=device, generator=generator)
    for offset in (0.0, 3000.0):
        far_query, far_key = query + offset, key + offset
        exact = -(far_query.double()[:, None] - far_key.double()).square().sum(-1)
        error = (similarity.euclidean_scores(far_query, far_key).double() - exact).abs()
        norms = far_query.norm(dim=-1)[:, None] + far_key.norm(dim=-1)
        bound = (11 + 3) / 2 * torch.finfo(torch.float32).eps * norms**2
        assert (error <= bound).all()
    assert error.max() > 1.0
    common = far_key.mean(0)
    near = similarity.euclidean_scores(far_query - common, far_key - common)
    # Subtracting rounds the coordinates to float32 only; those of far points already were.
    assert (near.double() - exact).abs().max() < 1e-4


@pytest.mark.claim("measures-cost-the-same")
def test_distances_cost_one_matrix_product_as_dot_products_do(points):
    query, key, _ = points
    counts = []
    for function in SCORES:
        with FlopCounterMode(display=False) as counter:
            function(query, key)
        counts.append(counter.get_total_flops())
    assert counts == [2 * 2 * 5 * 7 * 11] * 3


# ---- how they are related


@pytest.mark.claim("dot-is-distance-with-bias")
def test_dot_product_attention_is_distance_attention_with_a_bias_for_long_keys(points):
    """softmax(q·k/√d) = softmax(-|q-k|²/2√d + |k|²/2√d), and the bias may not be left out."""
    query, key, _ = points
    c = 11**-0.5
    expected = attention_weights(query, key)
    distances = similarity.euclidean_scores(query, key, scale=c / 2)
    bias = c / 2 * key.square().sum(-1)[..., None, :]
    torch.testing.assert_close(softmax.stable(distances + bias), expected, rtol=0, atol=32 * EPS)
    torch.testing.assert_close(
        softmax.stable(similarity.dot_scores(query, key)), expected, rtol=0, atol=32 * EPS
    )
    without = softmax.stable(distances)
    assert (without - expected).abs().sum(-1).max() / 2 > 0.1  # total variation


@pytest.mark.claim("one-length-no-difference")
def test_the_two_agree_where_all_keys_have_one_norm(points):
    query, key, _ = points
    key = 3 * key / key.norm(dim=-1, keepdim=True)
    weights = softmax.stable(similarity.euclidean_scores(query, key, scale=11**-0.5 / 2))
    torch.testing.assert_close(weights, attention_weights(query, key), rtol=0, atol=32 * EPS)


@pytest.mark.claim("dot-cosine-distance")
def test_the_product_is_half_the_norms_less_half_the_distance(points):
    query, key, _ = points
    dot = similarity.dot_scores(query, key, scale=1.0)
    q, k = query.norm(dim=-1)[..., :, None], key.norm(dim=-1)[..., None, :]
    torch.testing.assert_close(q * k * similarity.cosine_scores(query, key), dot)
    torch.testing.assert_close((q**2 + k**2 + similarity.euclidean_scores(query, key)) / 2, dot)


@pytest.mark.claim("own-favourite-by-angle")
def test_a_word_need_not_attend_most_to_itself(words):
    """By dot product four of six words prefer another word; by cosine or distance, none."""
    dot, cosine, distance = (function(words, words) for function in SCORES)
    itself = torch.arange(6, device=words.device)
    # Counted from 1: starts, with and step prefer journey (2), and one prefers starts (3).
    assert (dot.argmax(-1) + 1).tolist() == [1, 2, 2, 2, 3, 2]
    assert torch.equal(cosine.argmax(-1), itself)
    assert torch.equal(distance.argmax(-1), itself)

    rankings = [scores[JOURNEY].argsort(descending=True) + 1 for scores in (dot, cosine, distance)]
    assert [ranking.tolist() for ranking in rankings] == [
        [2, 3, 6, 1, 4, 5],
        [2, 3, 4, 6, 1, 5],
        [2, 3, 6, 4, 1, 5],
    ]


@pytest.mark.claim("own-best-match-by-width")
@every(
    ("n", "d", "share", "sets"),
    [(32, 2, 0.162, 2000), (32, 4, 0.408, 2000), (32, 16, 0.986, 2000), (1024, 16, 0.81, 5)],
)
def test_random_vectors_prefer_themselves_in_many_dimensions_only(
    n, d, share, sets, device, generator
):
    """Along x the others are standard normal, so the share is E Φ(R)^(n-1) with R = |x|."""
    radius = torch.linspace(0, 12, 20_001, dtype=torch.float64)
    density = radius ** (d - 1) * torch.exp(-(radius**2) / 2)
    expected = torch.special.ndtr(radius) ** (n - 1) @ density / density.sum()
    assert expected.item() == pytest.approx(share, abs=0.005)

    x = torch.randn(sets, n, d, device=device, generator=generator)
    own = similarity.dot_scores(x, x).argmax(-1) == torch.arange(n, device=device)
    shares = own.double().mean(-1)
    error = 5 * shares.std().item() / math.sqrt(sets)  # five standard errors over the sets
    assert shares.mean().item() == pytest.approx(expected.item(), abs=error)


# ---- why weights sum to one


@pytest.mark.claim("weights-of-product-one")
def test_weights_whose_product_is_one_are_no_average(words):
    """The weights e^(s - mean s) have product 1 and sum 6.28, and leave the hull of the values."""
    scores = similarity.dot_scores(words[JOURNEY : JOURNEY + 1], words, scale=1.0)
    weights = torch.exp(scores - scores.mean())
    assert weights.prod().item() == pytest.approx(1.0, rel=1e-12)
    assert weights.sum().item() == pytest.approx(6.28, abs=0.005)
    context = weights @ words
    assert context[0].tolist() == pytest.approx([2.77, 4.09, 3.57], abs=0.005)
    assert (context > words.amax(0)).all()

    weights = softmax.stable(scores)
    context = weights @ words
    assert context[0].tolist() == pytest.approx([0.4419, 0.6515, 0.5683], abs=5e-5)
    assert ((words.amin(0) <= context) & (context <= words.amax(0))).all()
    constant = torch.full_like(words, 7.0)
    torch.testing.assert_close(weights @ constant, constant[:1], rtol=8 * EPS, atol=0)


# ---- kernel regression


def kernel_regression(query, key, value, bandwidth):
    scores = similarity.euclidean_scores(query, key, scale=1 / (2 * bandwidth**2))
    return softmax.stable(scores) @ value


@pytest.mark.claim("kernel-regression-is-attention")
@every("bandwidth", [0.9, 2, 11**0.25])
def test_kernel_regression_is_attention(bandwidth, points):
    """With the scale 1/h², at h² = √d the usual one, and a bias against long keys."""
    inputs = [tensor.requires_grad_() for tensor in points]
    scale = bandwidth**-2

    def by_attention(query, key, value):
        bias = -key.square().sum(-1)[..., None, :] * scale / 2
        return scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=scale)

    def by_kernel(query, key, value):
        return kernel_regression(query, key, value, bandwidth)

    outputs = [function(*inputs) for function in (by_attention, by_kernel)]
    torch.testing.assert_close(*outputs, rtol=0, atol=64 * EPS)
    direction = outputs[0].detach().roll(1, dims=-2)
    gradients = [torch.autograd.grad((o * direction).sum(), inputs) for o in outputs]
    torch.testing.assert_close(*gradients, rtol=0, atol=256 * EPS)


@pytest.mark.claim("bandwidth-from-nearest-to-mean")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_narrow_and_the_wide_kernel(dtype, points):
    """With h → 0 the nearest key's value, however far it is; with h → ∞ the mean of the values."""
    query, key, value = (tensor.to(dtype) for tensor in points)
    nearest = torch.cdist(query, key).argmin(-1)
    expected = torch.take_along_dim(value, nearest[..., None], dim=-2)
    for bandwidth in (1e-4, 1e-8, 1e-12):
        found = kernel_regression(query, key, value, bandwidth)
        assert torch.equal(found, expected)
    # The formula as it stands has lost every kernel to underflow by then.
    kernel = torch.exp(-(torch.cdist(query, key) ** 2) / (2 * 0.01**2))
    assert (kernel == 0).all()
    found = kernel_regression(query, key, value, 1e6)
    mean = value.mean(-2, keepdim=True).expand_as(found)
    torch.testing.assert_close(found, mean, rtol=1e-5, atol=1e-6)


# ---- the best keys alone


@pytest.mark.claim("dropped-mass")
@every("count", [1, 2, 3, 5, 7])
def test_truncation_moves_twice_the_dropped_mass(count, points):
    """|p - p_k|_1 = 2 δ, so that the output moves by at most δ times the values' diameter."""
    query, key, value = points
    scores = similarity.euclidean_scores(query, key, scale=11**-0.5 / 2)
    p = softmax.stable(scores)
    least = scores.topk(count).values[..., -1:]
    truncated = softmax.stable(scores.masked_fill(scores < least, -torch.inf))
    dropped = p.masked_fill(truncated > 0, 0.0).sum(-1)
    torch.testing.assert_close((p - truncated).abs().sum(-1), 2 * dropped, rtol=0, atol=16 * EPS)
    moved = ((p - truncated) @ value).norm(dim=-1)
    diameter = torch.cdist(value, value).amax((-2, -1))[:, None]
    assert (moved <= dropped * diameter + 16 * EPS).all()


# ---- what all of them share


@every("function", SCORES)
def test_each_function_compiles_whole_and_maps_over_a_batch(function, points):
    query, key, _ = points
    before = query.clone(), key.clone()
    expected = function(query, key)
    assert torch.equal(query, before[0])
    assert torch.equal(key, before[1])
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for other in (compiled, torch.func.vmap(function)):
        torch.testing.assert_close(other(query, key), expected, rtol=0, atol=256 * EPS)


@every("function", SCORES)
@every(
    ("change", "message"),
    [
        (lambda query, key: (query, key[:, :3]), "key: expected last dimension 11, as query has"),
        (lambda query, key: (query.long(), key.long()), r"query: .* floating .* torch\.int64"),
        (lambda query, key: (query, key.double()), r"key: expected torch\.float32, the dtype of"),
    ],
)
def test_what_does_not_fit_is_named(function, change, message, device):
    query, key = torch.zeros(5, 11, device=device), torch.zeros(7, 11, device=device)
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        function(*change(query, key))


X, Y = torch.zeros(5, 11), torch.zeros(7, 11)


@every("function", SCORES)
def test_a_wrong_scale_is_named(function):
    with pytest.raises(ValueError, match=r"^scale: .* finite .* got nan"):
        function(X, Y, scale=math.nan)
