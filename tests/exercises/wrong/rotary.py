"""What goes wrong in rotary."""

import torch


def turned(x, angle):
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def angles(n, d, offset):
    return torch.arange(offset, offset + n)[:, None] * 10_000.0 ** (-torch.arange(0, d, 2) / d)


def from_position_one(x, offset=0):
    return turned(x, angles(*x.shape[-2:], offset + 1))


def sine_and_cosine_exchanged(x, offset=0):
    return turned(x, torch.pi / 2 - angles(*x.shape[-2:], offset))


def the_other_way(x, offset=0):
    return turned(x, -angles(*x.shape[-2:], offset))


def halves_as_pairs(x, offset=0):
    angle = angles(*x.shape[-2:], offset)
    first, second = x.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def half_the_exponent(x, offset=0):
    n, d = x.shape[-2:]
    frequency = 10_000.0 ** (-torch.arange(d // 2) / d)
    return turned(x, torch.arange(offset, offset + n)[:, None] * frequency)


def no_offset(x, offset=0):
    return turned(x, angles(*x.shape[-2:], 0))


def positions_along_the_first_dimension(x, offset=0):
    angle = angles(x.shape[0], x.shape[-1], offset)
    return turned(x, angle.reshape(x.shape[0], *[1] * (x.dim() - 2), -1))


WRONG = {
    from_position_one: "position_zero",
    sine_and_cosine_exchanged: "position_zero",
    the_other_way: "direction",
    halves_as_pairs: "pairs",
    half_the_exponent: "pairs",
    no_offset: "offset",
    positions_along_the_first_dimension: "heads",
}
