"""Performer: the exponential as an average over random directions.

Explained in variants/performer; with every option: attnref.performer_attention.
"""


def performer_attention(query, key, value, projection):
    """Unbiased estimate of the powers of softmax attention, in time that grows with n.

        e^{q·k} = E[φ(q)·φ(k)],   φ(x) = e^{Wx - |x|²/2} / √r,   W: r random rows

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``;
    ``projection``: W, ``(r, d)``, rows of standard normal numbers, best orthogonal in blocks.
    Left out: masks, causality. The variance grows as e^{|q + k|²}: large scores are not seen.
    Source: Choromanski et al. 2021, arXiv 2009.14794, lemma 1.

    >>> import torch
    >>> x = torch.ones(3, 2)
    >>> performer_attention(x, x, x, torch.randn(8, 2)).sum(-1)
    tensor([2., 2., 2.])
    """

    def exponents(x):
        x = x / query.shape[-1] ** 0.25  # √d is shared between query and key
        return x @ projection.mT - x.square().sum(-1, keepdim=True) / 2

    q, k = exponents(query), exponents(key)  # (..., n, r), (..., m, r)
    q = (q - q.amax(-1, keepdim=True)).exp()  # cancels in each row
    k = (k - k.amax((-2, -1), keepdim=True)).exp()  # cancels in all
    return q @ (k.mT @ value) / (q @ k.sum(-2)[..., None])  # (..., n, d_v)
