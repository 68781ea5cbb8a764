"""The masks of daily use, as tables of what may be seen.

Explained in foundations/masks; with every option: attnref.masks.causal.
"""

import torch


def causal_mask(n, m, alignment):
    """Which keys each query may see: ``(n, m)`` booleans, True = may attend.

        j ≤ i  from the top left,   j ≤ i + m - n  from the bottom right

    ``alignment``: ``"top-left"``, as PyTorch's ``is_causal`` counts; ``"bottom-right"`` for new
    tokens behind a cache. They differ where n and m do. Give the result to PyTorch as
    ``attn_mask``, which reads True as "may"; ``nn.MultiheadAttention`` reads it as "may not".
    Left out: the device, which is the processor; a mask of rules, which takes no memory.
    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.3.

    >>> causal_mask(1, 3, "bottom-right")
    tensor([[True, True, True]])
    """
    return torch.ones(n, m, dtype=torch.bool).tril(m - n if alignment == "bottom-right" else 0)


def causal_window_mask(n, window):
    """Each token sees itself and the ``window - 1`` before it.

    >>> causal_window_mask(3, window=2)[2]
    tensor([False,  True,  True])
    """
    return torch.ones(n, n, dtype=torch.bool).tril().triu(1 - window)


def padding_mask(lengths, m):
    """Keys before the end of each sequence: ``(b, 1, 1, m)``, for all heads and queries.

    >>> padding_mask(torch.tensor([2]), 3).flatten()
    tensor([ True,  True, False])
    """
    return (torch.arange(m) < lengths[:, None])[:, None, None, :]


def packed_mask(lengths):
    """Sequences laid end to end do not see each other: ``(n, n)`` for n tokens in all.

    >>> packed_mask(torch.tensor([1, 1]))
    tensor([[ True, False],
            [False,  True]])
    """
    document = torch.repeat_interleave(torch.arange(len(lengths)), lengths)  # (n,)
    return document[:, None] == document
