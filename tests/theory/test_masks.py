"""What the pages on masks and on their traps claim, with the wrong version beside the right."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import attnref
from attnref import masks


@pytest.fixture
def scores(randn):
    return randn(7, 7)


@pytest.mark.claim("mask-three-ways")
def test_forbidding_before_after_or_never_computing_is_the_same(scores, device):
    """Renormalised weights, scores of -inf, and the softmax of the allowed keys alone."""
    scores.requires_grad_()
    for mask in (
        masks.causal(7),
        masks.sliding_window(7, window=3, is_causal=True),
        masks.packed([3, 4]),
    ):
        may = mask.dense(device)
        kept = torch.softmax(scores, -1) * may
        renormalised = kept / kept.sum(-1, keepdim=True)
        masked = torch.softmax(scores.masked_fill(~may, -torch.inf), -1)
        # Each weight is a quotient of sums of at most 7 powers.
        torch.testing.assert_close(renormalised, masked, rtol=0, atol=1e-15)
        for i in range(7):
            alone = torch.softmax(scores[i, may[i]], -1)
            torch.testing.assert_close(masked[i, may[i]], alone, rtol=0, atol=1e-15)
        query, key = scores, torch.eye(7, dtype=torch.float64, device=device)
        ours = attnref.attention_weights(query, key, may, scale=1.0)
        torch.testing.assert_close(ours, masked, rtol=0, atol=1e-15)
        (gradient,) = torch.autograd.grad(masked.square().sum(), scores)
        assert not gradient[~may].any()
        assert gradient[may].any()


@pytest.mark.claim("one-global-token-makes-two-layers")
@pytest.mark.parametrize("n", [17, 257])
def test_two_layers_reach_everything_through_a_global_token(n, device):
    window = masks.sliding_window(n, window=5)
    with_hub = window | masks.global_tokens(n, positions=[n // 3])

    def reached(mask, layers):
        step = mask.dense(device).double()
        return torch.linalg.matrix_power(step, layers) > 0

    assert not reached(with_hub, 1).all()
    assert reached(with_hub, 2).all()
    needed = -(-(n - 1) // 2)  # the window reaches two places to either side
    assert not reached(window, needed - 1).all()
    assert reached(window, needed).all()


@pytest.mark.claim("masks-obey-de-morgan")
def test_not_both_is_not_one_or_not_the_other(device):
    one, other = masks.causal(11), masks.sliding_window(11, window=3)
    for left, right in (
        (~(one & other), ~one | ~other),
        (~(one | other), ~one & ~other),
        (one & ~other, ~(~one | other)),
    ):
        assert torch.equal(left.dense(device), right.dense(device))
    assert not (one & ~one).count()
    assert (one | ~one).count() == 11 * 11


def leaks(weigh, scores, may):
    """Whether another last word, its row and its column, moves an earlier row."""
    changed = scores.clone()
    changed[:, -1] += 5.0
    changed[-1] -= torch.arange(len(scores), device=scores.device)
    return not torch.equal(weigh(scores, may)[:-1], weigh(changed, may)[:-1])


@pytest.mark.claim("mask-after-softmax-leaks")
def test_a_mask_multiplied_after_the_softmax_lets_the_future_through(scores, device):
    may = masks.causal(7).dense(device)

    def too_late(scores, may):
        return torch.softmax(scores, -1) * may

    def in_time(scores, may):
        return torch.softmax(scores.masked_fill(~may, -torch.inf), -1)

    assert not leaks(in_time, scores, may)
    assert leaks(too_late, scores, may)
    sums = too_late(scores, may).sum(-1)
    assert (sums[:-1] < 1 - 1e-3).all()
    assert sums[-1].item() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.claim("wrong-axis-leaks")
def test_a_softmax_over_queries_lets_the_future_through(scores, device):
    may = masks.causal(7).dense(device)

    def wrong(scores, may):
        return torch.softmax(scores.masked_fill(~may, -torch.inf), -2)

    assert leaks(wrong, scores, may)
    columns = wrong(scores, may).sum(-2)
    torch.testing.assert_close(columns, torch.ones_like(columns), rtol=0, atol=1e-14)
    assert (wrong(scores, may).sum(-1) - 1).abs().max() > 0.1


@pytest.mark.claim("causal-flag-beside-a-mask")
def test_only_ours_reads_the_flag_and_the_mask_whatever_the_sizes(device):
    x = torch.zeros(1, 1, 5, 5, device=device)
    value = torch.eye(5, device=device)[None, None]
    may = torch.ones(5, 5, dtype=torch.bool, device=device)
    may[:, 1] = False
    both = (may & torch.ones_like(may).tril()).float()
    expected = both / both.sum(-1, keepdim=True)
    for width in (5, 3):
        ours = attnref.attend(x, x, value[..., :width], may, is_causal=True)[:2]
        torch.testing.assert_close(ours[1][0, 0], expected)
    # PyTorch's plain kernel, which it takes for unequal widths on a CPU, refuses.
    x, value = x.cpu(), value.cpu()
    with pytest.raises(RuntimeError, match="attn_mask should not be set when is_causal=True"):
        F.scaled_dot_product_attention(x, x, value[..., :3], may.cpu(), is_causal=True)

    # Its layer takes the flag for a hint: it reads one of the two, which one depends on
    # whether the weights are asked for.
    layer = nn.MultiheadAttention(5, 1, bias=False, batch_first=True)
    eye = torch.eye(5)
    layer.load_state_dict({"in_proj_weight": eye.repeat(3, 1), "out_proj.weight": eye})
    rows = {}
    for asked in (True, False):
        output, _ = layer(
            *(x[0], x[0], value[0]), attn_mask=~may.cpu(), is_causal=True, need_weights=asked
        )
        rows[asked] = output[0]
    mask_alone = may.cpu().float() / may.cpu().sum(-1, keepdim=True)
    flag_alone = torch.ones(5, 5).tril() / torch.arange(1, 6)[:, None]
    torch.testing.assert_close(rows[True], mask_alone)
    torch.testing.assert_close(rows[False], flag_alone)
