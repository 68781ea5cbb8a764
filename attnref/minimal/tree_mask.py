"""The mask of drafts that share their beginnings.

Explained in variants/draft-trees; with every option: attnref.masks.tree.
"""

import torch


def tree_mask(parents):
    """Each token of a tree sees itself and its ancestors, as if its path were the whole text.

        token i sees token j   if   j ∈ {i, parent_i, parent of parent_i, …}

    ``parents``: integers, ``(..., n)``; -1 continues the text before the tree. Returns booleans,
    ``(..., n, n)``. The position of a token is its depth, ``tree_mask(parents).sum(-1) - 1``, after
    the text before, which all tokens see.
    Left out: the cache, whose columns of ``True`` go in front; a walk over the tree, which needs no
    log₂ n products of n × n.
    Source: Miao et al. 2023 (SpecInfer), arXiv 2305.09781, section 4; Cai et al. 2024 (Medusa),
    arXiv 2401.10774, section 2.

    >>> tree_mask(torch.tensor([-1, 0, 0, 1])).int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [1, 0, 1, 0],
            [1, 1, 0, 1]], dtype=torch.int32)
    """
    n = parents.shape[-1]
    token = torch.arange(n, device=parents.device)
    allowed = (token == token[:, None]) | (token == parents[..., None])  # itself and its parent
    for _ in range((n - 1).bit_length()):  # each product doubles how far a token sees
        allowed = allowed.float() @ allowed.float() > 0
    return allowed  # (..., n, n)
