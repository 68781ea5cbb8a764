"""A bias for each distance: the definition with its table, which is never held; the gradient."""

import re
from functools import partial

import pytest
import torch
from torch.autograd import forward_ad

import attnref
from attnref import masks, positions
from attnref.variants import blockwise, distance_bias
from attnref.variants.distance_bias import METHOD, distance_bias_attention
from tests.variants.every import every

N, M, HEADS, D_K, D_V = 37, 53, 3, 5, 2


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks so small that a short sequence has several, of both shapes."""
    monkeypatch.setattr(blockwise, "ROWS", 8)
    monkeypatch.setattr(blockwise, "CHUNK", 4)


def drawn(randn, n=N, m=M, lead=(2,), dtype=torch.float64):
    shapes = ((n, D_K), (m, D_K), (m, D_V))
    inputs = [randn(*lead, HEADS, *shape) for shape in shapes] + [randn(HEADS, n + m - 1)]
    return [x.to(dtype).requires_grad_() for x in inputs]


def by_definition(query, key, value, bias, mask=None, **options):
    return METHOD.formula(query, key, value, mask, bias=bias, **options)


def masked(name, randn, n, m):
    return {
        "none": None,
        "bool": randn(2, 1, n, m) > -0.5,
        "float": randn(n, m).masked_fill(randn(n, m) > 1, -torch.inf),
        "heads": randn(HEADS, n, m) > -0.5,
        "keys": randn(m) > -1,
        "object": masks.causal(n, m, alignment="bottom-right") & masks.padding([m, min(m, 11)], m),
        "window": masks.sliding_window(n, m, window=3, alignment="top-left", is_causal=True),
    }[name]


@pytest.mark.claim("distance-bias-is-the-table")
@pytest.mark.parametrize("name", ["none", "bool", "float", "heads", "keys", "object", "window"])
@every("is_causal", [False, True])
@every(("n", "m"), [(N, M), (M, N), (1, M)])
def test_it_is_the_definition_with_the_table_in_values_and_gradients(
    n, m, is_causal, name, randn, small_blocks, assert_same
):
    inputs, mask = drawn(randn, n, m), masked(name, randn, n, m)
    options = {"is_causal": is_causal, "scale": 0.7}
    *tensors, bias = inputs
    ours = distance_bias_attention(*tensors, bias, mask, **options)
    assert_same(ours, by_definition(*inputs, mask, **options), inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@every("grouped", [False, True])
@every("name", ["none", "bool", "float", "heads", "keys", "object"])
def test_a_single_query_goes_to_the_kernel(grouped, name, dtype, randn, monkeypatch):
    """Without gradients; the bias keeps its digits, whatever the query's."""
    calls, original = [], distance_bias.call_fused
    monkeypatch.setattr(
        distance_bias, "call_fused", lambda call: (calls.append(call), original(call))[1]
    )
    *tensors, bias = (x.detach() for x in drawn(randn, 1, M, dtype=dtype))
    bias = bias.float()
    if grouped:
        tensors[1:] = [x[:, :1] for x in tensors[1:]]
    mask = masked(name, randn, 1, M)
    ours = distance_bias_attention(*tensors, bias, mask, enable_gqa=grouped)
    whole = [x.double().expand(2, HEADS, *x.shape[2:]) for x in tensors]
    expected = by_definition(*whole, bias.double(), mask)
    assert ours.dtype == dtype
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(ours.double(), expected, rtol=eps, atol=1e-5)
    assert [call.query.dtype for call in calls] == [torch.promote_types(dtype, torch.float32)]


@every("shape", [(), (HEADS,), (1,), (2, 1), (2, HEADS), (1, HEADS)])
def test_the_bias_may_have_any_leading_dimensions(shape, randn, small_blocks, assert_same):
    *tensors, _ = drawn(randn)
    bias = randn(*shape, N + M - 1).requires_grad_()
    ours = distance_bias_attention(*tensors, bias)
    assert_same(ours, by_definition(*tensors, bias), [*tensors, bias])


def test_blocks_of_the_usual_size(randn, assert_same):
    inputs = drawn(randn, 677, 1109, lead=())
    *tensors, bias = inputs
    for is_causal in (False, True):
        ours = distance_bias_attention(*tensors, bias, is_causal=is_causal)
        assert_same(ours, by_definition(*inputs, is_causal=is_causal), inputs)


def test_heads_in_groups(randn, small_blocks, assert_same):
    query, key, value = randn(2, 6, N, D_K), randn(2, 2, M, D_K), randn(2, 2, M, D_V)
    inputs = [x.requires_grad_() for x in (query, key, value, randn(6, N + M - 1))]
    ours = distance_bias_attention(*inputs[:3], bias=inputs[3], enable_gqa=True)
    expected = by_definition(*inputs, enable_gqa=True)
    assert_same(ours, expected, inputs)


@pytest.mark.claim("bias-gradient-sums-diagonals")
def test_the_gradient_of_a_distance_is_the_sum_along_its_diagonal(randn, small_blocks):
    """By the formula of the softmax, pair by pair, and added up by a loop over the distances."""
    query, key, value, bias = drawn(randn, lead=())
    weight = randn(HEADS, N, D_V)
    place = torch.arange(M)[None] - torch.arange(N)[:, None] + N - 1
    output = distance_bias_attention(query, key, value, bias, scale=1.0)
    (found,) = torch.autograd.grad(output, bias, weight)
    with torch.no_grad():
        weights = torch.softmax(query @ key.mT + bias[..., place], -1)
        by_weights = weight @ value.mT  # (h, n, m)
        by_scores = weights * (by_weights - (weights * by_weights).sum(-1, keepdim=True))
        expected = [by_scores.diagonal(t, -2, -1).sum(-1) for t in range(1 - N, M)]
    torch.testing.assert_close(found, torch.stack(expected, -1), rtol=1e-12, atol=1e-12)


@pytest.mark.claim("bias-holds-alibi-and-t5")
def test_alibi_kerple_and_buckets_are_biases_of_the_distance(randn, small_blocks, assert_same):
    """Gradients flow on: to slopes, to two numbers per head, and to a table of buckets."""
    inputs = drawn(randn)[:3]
    device = inputs[0].device
    t = positions.distances(N, M, alignment="bottom-right", device=device)
    pairs = torch.arange(M)[None] - torch.arange(M - N, M)[:, None]  # (n, m)
    apart = pairs.abs().to(device)
    slopes = positions.alibi_slopes(HEADS, dtype=torch.float64, device=device).requires_grad_()
    one, two = (randn(HEADS, 1).exp().requires_grad_() for _ in range(2))
    numbers = randn(HEADS, 8).requires_grad_()
    buckets, others = (
        positions.relative_buckets(x, num_buckets=8, max_distance=20).to(device) for x in (t, pairs)
    )
    kerple = -one[..., None] * torch.log1p(two[..., None] * apart)
    for bias, dense, *learned in (
        (-slopes[:, None] * t.abs(), -slopes[:, None, None] * apart, slopes),
        (-one * torch.log1p(two * t.abs()), kerple, one, two),
        (numbers[:, buckets], numbers[:, others], numbers),
    ):
        ours = distance_bias_attention(*inputs, bias=bias)
        expected = attnref.scaled_dot_product_attention(*inputs, dense)
        assert_same(ours, expected, [*inputs, *learned])
    fixed = positions.alibi(
        HEADS, N, M, alignment="bottom-right", dtype=torch.float64, device=device
    )
    torch.testing.assert_close(fixed, -slopes[:, None, None] * apart, rtol=1e-12, atol=1e-12)


@pytest.mark.claim("unused-buckets-get-no-gradient")
def test_a_bucket_that_no_pair_is_in_gets_no_gradient(randn):
    query, key, value, _ = drawn(randn, 7, 7)
    numbers = randn(HEADS, 32).requires_grad_()
    buckets = positions.relative_buckets(positions.distances(7))
    output = distance_bias_attention(query, key, value, numbers[:, buckets], is_causal=True)
    (found,) = torch.autograd.grad(output.square().sum(), numbers)
    assert (found[:, :7] != 0).all()  # the distances 0 to -6 have buckets of their own
    assert (found[:, 7:] == 0).all()


@pytest.mark.claim("bias-steps-are-one-pass")
def test_step_by_step_from_a_cache_is_one_causal_pass(randn):
    """The newest token is at the distance 0 from the last key: aligned at the end."""
    m = 11
    query, key, value, _ = (x.detach() for x in drawn(randn, m, m))
    numbers = randn(HEADS, 32)

    def bias(n, m, **options):
        t = positions.distances(n, m, **options)
        return numbers[:, positions.relative_buckets(t, bidirectional=False).to(numbers.device)]

    whole = distance_bias_attention(query, key, value, bias(m, m), is_causal=True)
    for alignment, equal in (("bottom-right", True), ("top-left", False)):
        steps = [
            distance_bias_attention(
                query[..., end - 1 : end, :],
                key[..., :end, :],
                value[..., :end, :],
                bias=bias(1, end, alignment=alignment),
            )
            for end in range(1, m + 1)
        ]
        found = torch.cat(steps, -2)
        assert torch.allclose(found, whole, rtol=1e-12, atol=1e-12) == equal


@pytest.mark.claim("distance-bias-memory-is-linear")
@pytest.mark.parametrize("is_causal", [False, True])
def test_memory_grows_linearly(is_causal, randn, monkeypatch, count):
    """Gradients included; all n × n weights would multiply it by 16 where n grows by 4."""
    monkeypatch.setattr(blockwise, "ROWS", 16)
    monkeypatch.setattr(blockwise, "CHUNK", 16)

    def peak(n):
        inputs = drawn(randn, n, n, lead=())
        *tensors, bias = inputs

        def run():
            output = distance_bias_attention(*tensors, bias, is_causal=is_causal)
            output.sum().backward()

        found = count(run).peak
        ours, inputs = [x.grad for x in inputs], [x.detach().requires_grad_() for x in inputs]
        by_definition(*inputs, is_causal=is_causal).sum().backward()
        torch.testing.assert_close(ours, [x.grad for x in inputs])
        return found

    assert 3.0 < peak(256) / peak(64) < 4.6


def test_empty_blocks_are_skipped(randn, count, small_blocks):
    tensors = [randn(64, 8) for _ in range(3)]

    def products(**options):
        function = partial(distance_bias_attention, *tensors, bias=randn(127), **options)
        return count(function).products

    every = products()
    assert every == 64 * 64 * (8 + 8)
    assert products(is_causal=True) / every == 0.5 + 8 / (2 * 64)  # the diagonal counts whole
    assert products(attn_mask=masks.packed([32, 32])) == every / 2
    assert products(attn_mask=masks.Mask((64, 64), lambda i, j: j < 0)) == 0


def test_minus_infinity_forbids_a_distance(randn, small_blocks, assert_same):
    """A window, as a bias; and a query that may see nothing gives zeros and finite gradients."""
    query, key, value, bias = drawn(randn, N, N)
    near = positions.distances(N, device=query.device).abs() <= 2

    def windowed():
        return torch.where(near, bias, -torch.inf)

    ours = distance_bias_attention(query, key, value, windowed())
    expected = by_definition(query, key, value, windowed())
    assert_same(ours, expected, [query, key, value, bias])
    none = torch.full_like(bias, -torch.inf).requires_grad_()
    output = distance_bias_attention(query, key, value, none)
    assert (output == 0).all()
    for gradient in torch.autograd.grad(output.sum(), (query, key, value, none)):
        assert (gradient == 0).all()


@every(("n", "dtype"), [(2, torch.float32), (2, torch.float64), (1, torch.float64)])
def test_the_least_number_forbids_nothing(n, dtype, device, small_blocks):
    """A row of it alone gives the mean of the values, forwards and backwards."""
    query = torch.zeros(n, 1, device=device)
    value = torch.tensor([[1.0], [3.0]], device=device, requires_grad=n > 1)
    bias = torch.full((n + 1,), torch.finfo(dtype).min, dtype=dtype, device=device)
    output = distance_bias_attention(query, torch.zeros(2, 1, device=device), value, bias=bias)
    torch.testing.assert_close(output, torch.full_like(output, 2.0))
    if n > 1:
        gradient = torch.autograd.grad(output.sum(), value)[0]
        torch.testing.assert_close(gradient, torch.ones_like(gradient))


def test_scores_of_any_size(randn, small_blocks):
    query, key, value, bias = (x.detach() for x in drawn(randn))
    for large in (3000.0, -3000.0):
        ours = distance_bias_attention(query * 50, key * 50, value, bias=bias * 100 + large)
        expected = by_definition(query * 50, key * 50, value, bias * 100)
        torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_dual_number_in_the_bias_alone(randn, small_blocks):
    query, key, value, bias = (x.detach() for x in drawn(randn))
    along = randn(*bias.shape)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(bias, along)
        found, expected = (
            forward_ad.unpack_dual(output).tangent
            for output in (
                distance_bias_attention(query, key, value, dual),
                by_definition(query, key, value, dual),
            )
        )
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_function_transforms(randn, small_blocks):
    """A gradient per sample, of a bias that all share; and the gradient of all samples at once."""
    query, key, value, bias = (x.detach() for x in drawn(randn))
    several = randn(4, *query.shape)

    def loss(bias, query):
        return distance_bias_attention(query, key, value, bias).square().sum()

    apart = torch.stack([torch.func.grad(loss)(bias, one) for one in several])
    together = torch.func.vmap(torch.func.grad(loss), (None, 0))(bias, several)
    torch.testing.assert_close(together, apart, rtol=1e-11, atol=1e-11)
    summed = torch.func.grad(lambda b: torch.func.vmap(loss, (None, 0))(b, several).sum())(bias)
    torch.testing.assert_close(summed, apart.sum(0), rtol=1e-11, atol=1e-11)
    biases = randn(4, *bias.shape)
    mapped = torch.func.vmap(torch.func.grad(loss), (0, None))(biases, query)
    each = torch.stack([torch.func.grad(loss)(one, query) for one in biases])
    torch.testing.assert_close(mapped, each, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_it_errs_no_more_than_the_budget(dtype, device, generator):
    """1.5 times PyTorch's own path, given the whole table; values, and gradients of all four."""
    n, heads, d = 1031, 2, 64
    shapes = [(1, heads, n, d)] * 4 + [(heads, 2 * n - 1)]
    drawn = (torch.randn(x, device=device, generator=generator).to(dtype) for x in shapes)
    weight, *inputs = (x.requires_grad_() for x in drawn)
    place = torch.arange(n)[None] - torch.arange(n)[:, None] + n - 1

    def kernel(*tensors, bias):
        return torch.nn.functional.scaled_dot_product_attention(*tensors, bias[..., place])

    def both(function, inputs):
        output = function(*inputs[:3], bias=inputs[3])
        return output, *torch.autograd.grad(output, inputs, weight.detach().to(output.dtype))

    exact = both(kernel, [x.detach().double().requires_grad_() for x in inputs])
    ours, theirs = both(distance_bias_attention, inputs), both(kernel, inputs)
    for one, other, truth in zip(ours, theirs, exact, strict=True):
        assert one.dtype == dtype
        assert (one - truth).norm() <= 1.5 * (other - truth).norm()


def test_a_bias_may_be_wider_than_the_query(device, randn):
    """A parameter in float32 beside a query in bfloat16 keeps its digits and its gradient's."""
    *tensors, bias = drawn(randn, dtype=torch.bfloat16)
    wide = bias.detach().float().requires_grad_()
    one, other = (distance_bias_attention(*tensors, b) for b in (bias, wide))
    assert torch.equal(one, other)
    assert torch.autograd.grad(other.sum(), wide)[0].dtype == torch.float32


@every(
    ("bias", "error", "message"),
    [
        (torch.zeros(11).long(), TypeError, "bias: expected a floating dtype, got torch.int64."),
        (
            torch.zeros(12),
            ValueError,
            "bias: expected shape (..., 11), a number for each distance ",
        ),
        (torch.zeros(()), ValueError, "bias: expected shape (..., 11), a number for each"),
        (torch.zeros(4, 11), ValueError, "bias: expected shape (..., 11), a number for each"),
        (torch.zeros(2, 2, 3, 11), ValueError, "bias: expected shape (..., 11), a number for"),
        (torch.zeros(3, 5, 7), ValueError, "bias: expected shape (..., 11), a number for each"),
        (torch.zeros(11, device="meta"), ValueError, "bias: expected device cpu, where query is"),
    ],
)
def test_a_wrong_bias_is_named(bias, error, message):
    tensors = [torch.zeros(2, 3, length, 2) for length in (5, 7, 7)]
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        distance_bias_attention(*tensors, bias)
