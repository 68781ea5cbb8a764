"""T5's relative positions: one learned number for each head and bucket of distances.

Explained in foundations/positions; with every option: attnref.positions.relative_buckets.
"""

import math

import torch


def relative_buckets(distance, num_buckets=32, max_distance=128):
    """Near distances have a bucket each; far ones share, as logarithms do. For a decoder.

        f(u) = u below e = B/2,   else min(e + ⌊(B - e) ln(u/e) / ln(D/e)⌋, B - 1)

    ``distance``: whole numbers, the key's place minus the query's; what is ahead
    counts as 0. Returns the bucket of each, an index into the table of a head.
    Left out: an encoder's buckets, half of them for what is ahead.
    Source: Raffel et al. 2019, arXiv 1910.10683, section 2.1, and its code.

    >>> relative_buckets(torch.tensor([0, -5, -20, -1000]))
    tensor([ 0,  5, 17, 31])
    """
    back, exact = (-distance).clamp(min=0), num_buckets // 2
    share = (back.clamp(min=1) / exact).log() / math.log(max_distance / exact)  # 0 at e, 1 at D
    far = exact + (share.clamp(min=0) * (num_buckets - exact)).long()
    return torch.where(back < exact, back, far.clamp(max=num_buckets - 1))


def bucket_bias(table, n):
    """What is added to the scores: ``(h, n, n)``, from a table ``(h, num_buckets)``.

    >>> bucket_bias(torch.arange(32.0)[None], 3)[0, 2]
    tensor([2., 1., 0.])
    """
    i = torch.arange(n, device=table.device)
    return table[:, relative_buckets(i - i[:, None])]
