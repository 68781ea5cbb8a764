"""What the pages claim of attention itself: its weights, its masks, its numbers."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as pytorch_attention

import attnref
from attnref.masks import padding


@pytest.fixture
def qkv(randn):
    """Queries (2, 3, 5, 7), keys (2, 3, 11, 7), values (2, 3, 11, 13), in float64."""
    return [randn(2, 3, *shape) for shape in [(5, 7), (11, 7), (11, 13)]]


@pytest.fixture
def allowed(qkv, generator):
    """Some pairs are forbidden; the first query has one key, and the last has none."""
    shape = (*qkv[0].shape[:-1], qkv[1].shape[-2])
    allowed = torch.rand(shape, device=generator.device, generator=generator) > 0.4
    allowed[..., 0, :] = torch.arange(shape[-1], device=generator.device) == 3
    allowed[..., -1, :] = False
    assert allowed[..., :-1, :].any(-1).all()
    return allowed


@pytest.mark.claim("rows-sum-to-one")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_each_row_of_weights_sums_to_one(dtype, qkv, allowed):
    query, key = (tensor.to(dtype) for tensor in qkv[:2])
    for size in (1e-3, 1.0, 1e3):
        for mask in (None, allowed):
            weights = attnref.attention_weights(size * query, key, mask)
            assert (weights >= 0).all()
            sums = torch.ones_like(weights[..., 0])
            if mask is not None:
                sums[..., -1] = 0  # no key, no weight
            # Each of the 11 weights, and each of the 10 additions in float64 or not, rounds once.
            error = (weights.double().sum(-1) - sums).abs().max()
            assert error <= 21 * torch.finfo(dtype).eps


@pytest.mark.claim("same-as-pytorch")
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}])
def test_output_and_gradients_are_those_of_pytorch(qkv, options, generator):
    ours = [tensor.clone().requires_grad_() for tensor in qkv]
    theirs = [tensor.clone().requires_grad_() for tensor in qkv]
    output = attnref.scaled_dot_product_attention(*ours, **options)
    expected = pytorch_attention(*theirs, **options)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-13)

    upstream = torch.randn(
        output.shape, dtype=output.dtype, device=output.device, generator=generator
    )
    for gradient, wanted in zip(
        torch.autograd.grad(output, ours, upstream),
        torch.autograd.grad(expected, theirs, upstream),
        strict=True,
    ):
        torch.testing.assert_close(gradient, wanted, rtol=0, atol=1e-13)


@pytest.mark.claim("output-within-values")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_output_stays_between_the_smallest_and_the_largest_value(dtype, qkv, allowed):
    """Of those that it averages: what a mask forbids does not stretch the interval."""
    query, key, value = (tensor.to(dtype) for tensor in qkv)
    value = value + 5  # weights that do not sum to 1 would move it out
    rounding = 45 * torch.finfo(dtype).eps * value.abs().max()
    for mask in (torch.ones_like(allowed), allowed):
        output = attnref.scaled_dot_product_attention(query, key, value, mask)[..., :-1, :]
        averaged = value[..., None, :, :].expand(*mask.shape, -1)[..., :-1, :, :]
        forbidden = ~mask[..., :-1, :, None]
        most = averaged.masked_fill(forbidden, -torch.inf).amax(-2)  # (2, 3, 4, 13)
        least = averaged.masked_fill(forbidden, torch.inf).amin(-2)
        assert (output <= most + rounding).all()
        assert (output >= least - rounding).all()


@pytest.mark.claim("causal-hides-the-future")
def test_changing_a_word_moves_no_earlier_row(device, generator):
    x = torch.randn(2, 7, 5, device=device, generator=generator)
    for place in range(7):
        changed = x.clone()
        changed[:, place] += 3.0
        before, after = (
            attnref.scaled_dot_product_attention(y, y, y, is_causal=True) for y in (x, changed)
        )
        assert torch.equal(before[:, :place], after[:, :place])
        assert not torch.equal(before[:, place], after[:, place])


@pytest.mark.claim("padding-does-not-matter")
def test_real_rows_do_not_see_how_much_padding_there_is(device, randn):
    words = randn(1, 5, 7)
    alone = attnref.scaled_dot_product_attention(words, words, words)
    for length in (6, 11, 17):
        x = torch.full((1, length, 7), 9.0, dtype=torch.float64, device=device)
        x[:, :5] = words
        mask = padding([5], length).dense(device)[:, 0]  # (batch, 1, m): no heads here
        output = attnref.scaled_dot_product_attention(x, x, x, attn_mask=mask)
        torch.testing.assert_close(output[:, :5], alone, rtol=0, atol=1e-14)


@pytest.mark.claim("fully-masked-row")
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_query_that_may_attend_to_nothing_gets_zeros(qkv, kind):
    query, key, value = (tensor.requires_grad_() for tensor in qkv)
    mask = torch.ones(5, 11, dtype=torch.bool, device=query.device)
    mask[2] = False
    if kind == "float":
        mask = torch.zeros(5, 11, dtype=query.dtype, device=query.device).masked_fill(
            ~mask, -torch.inf
        )
    output, weights, _ = attnref.attend(query, key, value, attn_mask=mask)
    assert (output[..., 2, :] == 0).all()
    assert (weights[..., 2, :] == 0).all()
    assert (output[..., 3, :] != 0).all()
    for gradient in torch.autograd.grad(output.square().sum(), (query, key, value)):
        assert gradient.isfinite().all()


@pytest.mark.claim("nan-stays-behind-the-mask")
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_bad_numbers_stay_behind_their_mask(qkv, bad):
    clean = [tensor.clone() for tensor in qkv]
    mask = torch.ones(5, 11, dtype=torch.bool, device=clean[0].device)
    mask[:4, 6] = False  # the last query alone may see key 6
    expected = attnref.scaled_dot_product_attention(*clean, attn_mask=mask)

    spoiled = [tensor.clone() for tensor in qkv]
    spoiled[1][..., 6, 3] = bad
    spoiled[2][..., 6, :] = bad
    spoiled = [tensor.requires_grad_() for tensor in spoiled]
    output = attnref.scaled_dot_product_attention(*spoiled, attn_mask=mask)

    assert torch.equal(output[..., :4, :], expected[..., :4, :])
    assert not output[..., 4, :].isfinite().any()
    for gradient in torch.autograd.grad(output[..., :4, :].sum(), spoiled):
        assert gradient.isfinite().all()
    # PyTorch multiplies the bad value by a weight of zero.
    theirs = pytorch_attention(*spoiled, attn_mask=mask)
    assert theirs[..., :4, :].isnan().any()


@pytest.mark.claim("half-precision-is-safe")
@pytest.mark.parametrize(
    ("dtype", "size"), [(torch.float16, 30.0), (torch.float16, 2.0**15), (torch.bfloat16, 2.0**127)]
)
def test_half_precision_does_not_overflow(dtype, size, device):
    # Powers of two, and a square d_k: every score is exact, so that equal scores stay equal.
    query = torch.full((3, 256), size, dtype=dtype, device=device)
    key = torch.full((5, 256), size, dtype=dtype, device=device)
    value = torch.arange(5.0, device=device).to(dtype)[:, None]
    output = attnref.scaled_dot_product_attention(query, key, value)
    assert output.dtype == dtype
    assert torch.equal(output, torch.full_like(output, 2.0))  # equal scores: the plain average
    if dtype == torch.float16:
        assert (query @ key.mT).isinf().all()  # what the naive order would have to work with


@pytest.mark.claim("key-order-does-not-matter")
def test_shuffling_keys_with_their_values_changes_nothing(qkv, device):
    query, key, value = qkv
    order = torch.randperm(11, generator=torch.Generator().manual_seed(1)).to(device)
    output = attnref.scaled_dot_product_attention(query, key, value)
    shuffled = attnref.scaled_dot_product_attention(query, key[..., order, :], value[..., order, :])
    torch.testing.assert_close(output, shuffled, rtol=0, atol=1e-14)


@pytest.mark.claim("matrix-equals-loop")
def test_the_matrix_form_gives_what_loops_give(qkv):
    query, key, value = qkv
    output = attnref.scaled_dot_product_attention(query, key, value)
    for b in range(2):
        for h in range(3):
            for i in range(5):
                scores = [sum(query[b, h, i] * key[b, h, j]) / 7**0.5 for j in range(11)]
                powers = [score.exp() for score in scores]
                row = sum(powers[j] * value[b, h, j] for j in range(11)) / sum(powers)
                torch.testing.assert_close(output[b, h, i], row, rtol=0, atol=1e-14)


@pytest.mark.claim("softmax-blocks-associativity")
def test_only_without_the_softmax_may_the_products_be_reordered(qkv):
    query, key, value = qkv
    left, right = (query @ key.mT) @ value, query @ (key.mT @ value)
    torch.testing.assert_close(left, right, rtol=0, atol=1e-12)
    output = attnref.scaled_dot_product_attention(query, key, value, scale=1.0)
    weights = torch.softmax(query @ key.mT, dim=-1)
    torch.testing.assert_close(output, weights @ value, rtol=0, atol=1e-12)
    assert (output - right).abs().min() > 1e-3
