"""Speculative decoding has no whole function: here the text that it keeps has the law of p."""

from functools import partial

import torch

from attnref.minimal.speculative import verify_draft


def test_verified_drafts_follow_the_model():
    """Sums over all drafts and a grid of uniform numbers, on which the rule is exact."""
    steps, tokens = 12, torch.arange(4)
    q = torch.tensor([1.0, 4.0, 2.0, 1.0], dtype=torch.float64) / 8
    q_next = torch.tensor([[2.0, 2, 2, 2], [1, 2, 1, 4], [1, 4, 2, 1], [4, 1, 2, 1]]).double() / 8
    p = torch.tensor([3.0, 1.0, 3.0, 1.0], dtype=torch.float64) / 8
    p_next = torch.tensor([[3.0, 1, 3, 1], [2, 4, 1, 1], [3, 1, 3, 1], [2, 3, 2, 1]]).double() / 8
    last = torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=torch.float64) / 12
    grid = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
    cases = torch.cartesian_prod(tokens.double(), tokens.double(), grid, grid, grid)
    drafts, uniform = cases[:, :2].long(), cases[:, 2:]  # (cases, 2), (cases, 3)
    x, y = drafts.unbind(-1)
    draft_probs = torch.stack([q.expand(len(x), 4), q_next[x]], dim=-2)
    probs = torch.stack([p.expand(len(x), 4), p_next[x], last.expand(len(x), 4)], dim=-2)
    count, drawn = verify_draft(drafts, draft_probs, probs, uniform)

    # How often each case occurs, in whole numbers: sums of them are exact.
    weight, whole = 8 * q[x] * 8 * q_next[x, y], 64 * steps**3
    text = torch.cat([drafts, drawn[:, None]], dim=-1)
    text = torch.where(torch.arange(3) < count[:, None], text, drawn[:, None])

    def law(length, some):  # of the first tokens, in these cases
        place = (text[some, :length] * 4 ** torch.arange(length).flip(0)).sum(-1)
        sums = torch.zeros(4**length, dtype=torch.float64).index_add(0, place, weight[some])
        return (sums / whole).view((4,) * length)

    close = partial(torch.testing.assert_close, rtol=0, atol=1e-15)
    close(law(1, count >= 0), p)
    close(law(2, count >= 1), torch.minimum(p, q)[:, None] * p_next)  # if the first stays
    both = torch.minimum(p, q)[:, None] * torch.minimum(p_next, q_next)
    close(law(3, count == 2), both[..., None] * last)
