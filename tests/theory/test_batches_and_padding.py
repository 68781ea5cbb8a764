"""What the page on batches and padding claims beyond the tests of the masks."""

import pytest
import torch

import attnref
from attnref.masks import Mask, causal, padding
from attnref.positions import alibi, rotary, sinusoidal


@pytest.mark.claim("left-padding-needs-no-new-positions")
def test_padding_on_the_left_moves_positions_that_are_relative_not_at_all(device, randn):
    """Rotations and linear biases know distances; a table of positions has to be told."""
    n, width, heads, d = 5, 11, 3, 8
    q, k, v = randn(3, heads, n, d)

    def attend(padded_to, side, positions):
        """The real rows of one sequence, padded with nines on one side."""
        first = padded_to - n if side == "left" else 0
        real = slice(first, first + n)
        tensors = []
        for x in (q, k, v):
            box = torch.full((heads, padded_to, d), 9.0, dtype=torch.float64, device=device)
            box[:, real] = x
            tensors.append(box)
        if positions == "rotary":
            tensors[:2] = [rotary(x) for x in tensors[:2]]
        if positions == "table":
            table = sinusoidal(padded_to, d, dtype=torch.float64, device=device)
            tensors[:2] = [x + table for x in tensors[:2]]
        may = causal(padded_to) & Mask((1, padded_to), lambda i, j: (j >= first) & (j < first + n))
        bias = torch.zeros(padded_to, padded_to, dtype=torch.float64, device=device)
        if positions == "alibi":
            bias = alibi(heads, padded_to, dtype=torch.float64, device=device)
        mask = bias.masked_fill(~may.dense(device), -torch.inf)
        return attnref.scaled_dot_product_attention(*tensors, attn_mask=mask)[:, real]

    for positions in ("none", "rotary", "alibi"):
        alone = attend(n, "right", positions)
        for side in ("left", "right"):
            # Angles up to 11 are off by some eps, which scores of 8 products repeat.
            torch.testing.assert_close(attend(width, side, positions), alone, rtol=0, atol=1e-13)
    alone = attend(n, "right", "table")
    torch.testing.assert_close(attend(width, "right", "table"), alone, rtol=0, atol=1e-13)
    assert (attend(width, "left", "table") - alone).abs().max() > 0.1


def test_left_padding_in_a_batch_is_the_opposite_of_a_right_padding_mask(device):
    """What the page advises: the real keys of sample b are the last lengths[b] ones."""
    lengths, n = torch.tensor([2, 5], device=device), 5
    left = Mask((2, 1, 1, n), lambda i, j: j >= n - lengths[:, None, None, None].to(j.device))
    assert torch.equal(left.dense(device), padding(lengths, n).dense(device).flip(-1))
