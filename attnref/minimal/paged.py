"""One step of decoding from a cache in pages.

Explained in variants/paged; with every option: attnref.paged_attention.
"""

import torch


def paged_attention_step(query, key, value, block_table, lengths):
    """Each sequence reads its keys through a row of page numbers.

        token t of sequence s is in row t mod P of page block_table[s, ⌊t / P⌋]

    ``query``: ``(b, h, 1, d)``; ``key``: ``(pages, P, h, d)``; ``value``: ``(pages, P, h, d_v)``,
    of all sequences; ``block_table``: ``(b, p)``, any page behind the end; ``lengths``: ``(b,)``,
    from 1.
    Left out: grouped heads, several new tokens; NaN in places that nobody has written, which a
    weight of 0 does not stop. The pages are gathered, which a kernel avoids.
    Source: Kwon et al. 2023, arXiv 2309.06180, section 4.1.

    >>> q, pool = torch.ones(1, 1, 1, 2), torch.ones(3, 4, 1, 2)
    >>> paged_attention_step(q, pool, pool, torch.tensor([[2, 0]]), torch.tensor([5]))
    tensor([[[[1., 1.]]]])
    """
    # (b, p, P, h, d) → (b, h, p P, d)
    key, value = (x[block_table].flatten(1, 2).transpose(1, 2) for x in (key, value))
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (b, h, 1, p P)
    behind = torch.arange(key.shape[-2], device=key.device) >= lengths[:, None, None, None]
    return torch.softmax(scores.masked_fill(behind, float("-inf")), dim=-1) @ value
