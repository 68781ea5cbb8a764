"""The softmax that does not overflow.

Explained in foundations/softmax-or-sum; with every option: attnref.softmax.stable.
"""


def stable_softmax(scores):
    """Positive numbers that sum to 1; the largest score is taken away first, which cancels.

        p_j = e^{s_j - μ} / Σ_k e^{s_k - μ},   μ = max_k s_k

    ``scores``: ``(..., m)``, and so is the result.
    Left out: a row of -∞ alone, which gives NaN; half precision, summed as it comes.
    Source: Goodfellow et al. 2016, Deep Learning, section 4.1.

    >>> import torch
    >>> stable_softmax(torch.tensor([1000.0, 1000.0]))
    tensor([0.5000, 0.5000])
    """
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)
