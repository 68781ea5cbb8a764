"""Two attentions over parts of the keys are one attention over all of them.

Explained in complexity/memory; with every option: attnref.softmax.merge.
"""

import torch


def merge(output, lse, other, other_lse):
    """The average over all keys from the averages over two parts.

        ℓ = ln(e^{ℓ₁} + e^{ℓ₂}),   o = e^{ℓ₁ - ℓ} o₁ + e^{ℓ₂ - ℓ} o₂

    ``output``, ``other``: ``(..., n, d_v)``; ``lse``, ``other_lse``: ``(..., n)``, the log-sum-exp
    of the scaled scores of each part. Returns both for the whole. Order does not matter.
    Left out: rows that see no key in one part: their output there must be zeros, not the NaN of a
    softmax, with lse = -∞; in both parts, the result is NaN.
    Source: Milakov and Gimelshein 2018, arXiv 1805.02867.

    >>> one, zero = torch.ones(1, 1), torch.zeros(1)
    >>> merge(one, zero, 3 * one, zero)[0]
    tensor([[2.]])
    """
    total = torch.logaddexp(lse, other_lse)  # (..., n)
    first, second = (lse - total).exp()[..., None], (other_lse - total).exp()[..., None]
    return first * output + second * other, total
