"""Positions as sines and cosines.

Explained in foundations/positions; with every option: attnref.positions.sinusoidal.
"""

import torch


def sinusoidal(length, dim):
    """A fixed row for each position, to be added to the embedding of the token there.

        PE_{t,2i} = sin(ω_i t),   PE_{t,2i+1} = cos(ω_i t),   ω_i = 10000^{-2i/d}

    Returns ``(length, dim)``, float32; ``dim`` is even. Angles are in float64: in float32 they
    are off by 10⁻³ after ten thousand positions.
    Left out: another base, an offset.
    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.5.

    >>> sinusoidal(2, 2)
    tensor([[0.0000, 1.0000],
            [0.8415, 0.5403]])
    """
    frequencies = 10000 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)  # (d / 2,)
    angles = torch.arange(length)[:, None] * frequencies  # (length, d / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).float()
