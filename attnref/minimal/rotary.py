"""Rotary positions (RoPE), in both layouts.

Explained in foundations/positions; with every option: attnref.positions.rotary.
"""

import torch


def rotary(x, positions, base=10000.0):
    """Neighbouring components turn as pairs, by an angle that grows with the position.

        (x_{2i}, x_{2i+1}) turns by the angle t · base^{-2i/d}

    ``x``: ``(..., n, d)``, d even; ``positions``: ``(n,)``. Apply it to queries and keys: their
    dot product then depends on the difference of positions alone.
    Left out: angles in float64, which matter beyond some 10⁵ tokens; stretched frequencies.
    Source: Su et al. 2021, arXiv 2104.09864, section 3.2.2.

    >>> rotary(torch.ones(1, 2), torch.tensor([0]))
    tensor([[1., 1.]])
    """
    even, odd = x[..., 0::2], x[..., 1::2]  # (..., n, d / 2)
    cos, sin = _turns(x, positions, base)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def rotary_half_split(x, positions, base=10000.0):
    """The same with component i beside i + d/2, as in Llama's and GPT-NeoX's weights.

    >>> rotary_half_split(torch.ones(1, 2), torch.tensor([0]))
    tensor([[1., 1.]])
    """
    first, second = x.chunk(2, dim=-1)  # (..., n, d / 2)
    cos, sin = _turns(x, positions, base)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def _turns(x, positions, base):
    d, dtype = x.shape[-1], torch.promote_types(x.dtype, torch.float32)
    frequencies = base ** (-torch.arange(0, d, 2, dtype=dtype, device=x.device) / d)  # (d / 2,)
    angles = positions[:, None] * frequencies  # (n, d / 2)
    return angles.cos().to(x.dtype), angles.sin().to(x.dtype)
