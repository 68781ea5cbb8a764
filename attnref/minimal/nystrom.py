"""Nyström attention: all weights from a few rows and columns of them.

Explained in variants/nystrom; with every option: attnref.nystrom_attention.
"""

import torch


def nystrom_attention(query, key, value, num_landmarks, iterations=6):
    """Queries reach the keys by way of landmarks, which are means of consecutive tokens.

        O = softmax(Q K̃ᵀ / √d) A⁺ softmax(Q̃ Kᵀ / √d) V,   A = softmax(Q̃ K̃ᵀ / √d)
        A⁺:   Z ← Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4,   from Z = Aᵀ / (|A|_1 |A|_∞)

    ``query``: ``(..., n, d)``; ``key``: ``(..., m, d)``; ``value``: ``(..., m, d_v)``;
    ``num_landmarks``: r, at most n and m. Time and memory grow with (n + m) r.
    Left out: nothing but half precision, in which the iteration is too coarse. Landmarks mix past
    and future, so there is no causal form; on data without structure A is close to singular, and
    the error large.
    Source: Xiong et al. 2021, arXiv 2102.03902, section 3.

    >>> x, v = torch.tensor([[0.0], [3.0]]), torch.tensor([[10.0], [20.0]])
    >>> nystrom_attention(x, x, v, num_landmarks=2, iterations=12)
    tensor([[15.0000],
            [19.9988]])
    """
    query = query / query.shape[-1] ** 0.5
    query_means, key_means = (_average(x, num_landmarks) for x in (query, key))  # (..., r, d)
    columns = torch.softmax(query @ key_means.mT, dim=-1)  # (..., n, r)
    core = torch.softmax(query_means @ key_means.mT, dim=-1)  # (..., r, r)
    rows = torch.softmax(query_means @ key.mT, dim=-1)  # (..., r, m)
    largest = core.sum(-2).amax(-1) * core.sum(-1).amax(-1)  # (...), of columns and of rows
    inverse = core.mT / largest[..., None, None]  # (..., r, r)
    unit = torch.eye(num_landmarks, dtype=query.dtype, device=query.device)
    for _ in range(iterations):
        product = core @ inverse
        inverse = inverse @ (13 * unit - product @ (15 * unit - product @ (7 * unit - product))) / 4
    return columns @ (inverse @ (rows @ value))  # (..., n, d_v)


def _average(tokens, num_landmarks):
    """The means of ``num_landmarks`` segments, whose lengths differ by at most one token."""
    n = tokens.shape[-2]
    segment = torch.arange(n, device=tokens.device) * num_landmarks // n  # (n,)
    member = segment == torch.arange(num_landmarks, device=tokens.device)[:, None]  # (r, n)
    return member.to(tokens.dtype) @ tokens / member.sum(-1, keepdim=True)  # (..., r, d)
