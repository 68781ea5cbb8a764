"""Speculative decoding: which drafted tokens stay, and what follows them.

Explained in variants/draft-trees.
"""

import torch


def verify_draft(tokens, draft_probs, probs, uniform):
    """Drafts are kept up to the first rejection, and one more token is drawn, so that all follow p.

        keep x with probability min(1, p(x) / q(x)), else draw from max(0, p - q), normalised:
        q(x) min(1, p(x) / q(x)) + max(0, p(x) - q(x)) = p(x)

    ``tokens``: ``(..., n)``, a chain drawn from q, ``draft_probs``: ``(..., n, V)``; ``probs``: p
    of the large model at these places and the one after them, from one pass, ``(..., n + 1, V)``;
    ``uniform``: ``(..., n + 1)``, from ``torch.rand``. Returns how many drafts stay, ``(...)``, and
    the token after them, ``(...)``.
    Left out: several drafts of one place. Drafts that were not drawn from q change the text.
    Source: Leviathan et al. 2023, arXiv 2211.17192, algorithm 1; Chen et al. 2023, arXiv
    2302.01318, algorithm 2.

    >>> q, p = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> verify_draft(torch.tensor([0]), q, p, torch.tensor([0.3, 0.3]))  # p never writes 0 here
    (tensor(0), tensor(1))
    >>> verify_draft(torch.tensor([1]), q, p, torch.tensor([0.3, 0.3]))
    (tensor(1), tensor(0))
    """
    n = tokens.shape[-1]
    p, q = (x[..., :n, :].gather(-1, tokens[..., None])[..., 0] for x in (probs, draft_probs))
    kept = uniform[..., :n] * q < p  # (..., n), u < p / q
    count = kept.long().cumprod(-1).sum(-1)  # (...), none after the first rejection
    nothing = torch.zeros_like(probs[..., :1, :])  # no draft behind the last: q = 0 leaves p
    lacking = (probs - torch.cat([draft_probs, nothing], dim=-2)).clamp(min=0)  # (..., n + 1, V)
    p, lacking = (
        torch.take_along_dim(x, count[..., None, None], dim=-2)[..., 0, :] for x in (probs, lacking)
    )  # (..., V), at the place after those that stay
    total = lacking.sum(-1, keepdim=True)
    sums = torch.where(total > 0, lacking, p).cumsum(-1)  # if rounding leaves nothing of p - q: p
    drawn = (sums <= uniform[..., n:] * sums[..., -1:]).sum(-1)
    return count, drawn
