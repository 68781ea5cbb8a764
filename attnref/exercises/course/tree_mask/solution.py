"""The mask of a tree of drafts, behind a cache."""

import torch
from torch import Tensor


def tree_mask(parents: list[int], past: int) -> Tensor:
    n = len(parents)
    allowed = torch.zeros(n, past + n, dtype=torch.bool)
    allowed[:, :past] = True
    for node in range(n):
        # Up from the node itself to its root: what is met on the way is what it sees.
        seen = node
        while seen != -1:
            allowed[node, past + seen] = True
            seen = parents[seen]
    return allowed  # (n, past + n)
