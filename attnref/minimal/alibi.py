"""ALiBi: keys count less the further away they are.

Explained in foundations/positions; with every option: attnref.positions.alibi.
"""

import math

import torch


def alibi_slopes(num_heads, device=None):
    """A geometric sequence of slopes; between two powers of two, every second of the next is added.

        s_i = 2^{-8i/h},   i = 1, …, h   if h is a power of two

    Returns ``(num_heads,)``. Left out: nothing.
    Source: Press, Smith and Lewis 2021, arXiv 2108.12409, section 3, and its published code.

    >>> alibi_slopes(2)
    tensor([0.0625, 0.0039])
    """
    power = 2 ** math.floor(math.log2(num_heads))
    own = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2 ** (-4 * (2 * i - 1) / power) for i in range(1, num_heads - power + 1)]
    return torch.tensor(own + between, device=device)


def alibi(num_heads, n, device=None):
    """What is added to the scores: ``(num_heads, n, n)``, -slope times the distance.

    >>> alibi(1, 2)[0, 1]
    tensor([-0.0039,  0.0000])
    """
    i = torch.arange(n, device=device)
    return alibi_slopes(num_heads, device)[:, None, None] * -(i[:, None] - i).abs()
