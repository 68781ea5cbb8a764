"""ALiBi: scores that fall with distance."""

import torch
from torch import Tensor


def alibi_bias(num_heads: int, n: int) -> Tensor:
    head = torch.arange(1, num_heads + 1)  # (h,)
    slope = 2.0 ** (-8 * head / num_heads)  # (h,): the last one is always 2^-8
    position = torch.arange(n)
    distance = (position[:, None] - position).abs()  # (n, n), integers: they know no -0.0
    return slope[:, None, None] * -distance  # (h, n, n), as the scores of a sample
