"""The causal mask, for a sequence and for its last tokens."""

import torch
from torch import Tensor


def causal_mask(n: int, m: int) -> Tensor:
    # Query i is token i + m - n of the sequence, so the diagonal starts m - n columns later.
    return torch.ones(n, m, dtype=torch.bool).tril(diagonal=m - n)  # (n, m)
