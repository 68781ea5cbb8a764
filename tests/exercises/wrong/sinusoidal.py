"""What goes wrong in sinusoidal."""

import torch


def interleaved(first, second):
    return torch.stack([first, second], -1).flatten(-2)


def angles(length, dim, start=0, exponents=None):
    exponents = torch.arange(0, dim, 2) / dim if exponents is None else exponents
    return torch.arange(start, start + length)[:, None] * 10_000.0**-exponents


def sines_then_cosines(length, dim):
    angle = angles(length, dim)
    return torch.cat([angle.sin(), angle.cos()], -1)


def cosine_first(length, dim):
    angle = angles(length, dim)
    return interleaved(angle.cos(), angle.sin())


def from_position_one(length, dim):
    angle = angles(length, dim, start=1)
    return interleaved(angle.sin(), angle.cos())


def degrees(length, dim):
    angle = torch.deg2rad(angles(length, dim))
    return interleaved(angle.sin(), angle.cos())


def frequency_of_each_column(length, dim):
    angle = angles(length, dim, exponents=torch.arange(dim) / dim)
    even = torch.arange(dim) % 2 == 0
    return torch.where(even, angle.sin(), angle.cos())


def half_the_exponent(length, dim):
    angle = angles(length, dim, exponents=torch.arange(dim // 2) / dim)
    return interleaved(angle.sin(), angle.cos())


def twice_the_exponent(length, dim):
    angle = angles(length, dim, exponents=2 * torch.arange(0, dim, 2) / dim)
    return interleaved(angle.sin(), angle.cos())


WRONG = {
    sines_then_cosines: "first_row",
    cosine_first: "first_row",
    from_position_one: "first_row",
    degrees: "fastest_pair",
    frequency_of_each_column: "fastest_pair",
    half_the_exponent: "frequencies",
    twice_the_exponent: "frequencies",
}
