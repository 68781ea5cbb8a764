"""What goes wrong in alibi_bias."""

import torch


def signed(n):
    return torch.arange(n)[:, None] - torch.arange(n)


def slopes(num_heads, first=1):
    return (2.0 ** (-8 * torch.arange(first, num_heads + first) / num_heads))[:, None, None]


def prefers_the_far(num_heads, n):
    return slopes(num_heads) * signed(n).abs()


def distance_with_its_sign(num_heads, n):
    return -slopes(num_heads) * signed(n)


def heads_from_zero(num_heads, n):
    return -slopes(num_heads, first=0) * signed(n).abs()


def one_slope_for_all(num_heads, n):
    return -(2.0**-8) * signed(n).abs().expand(num_heads, n, n)


def slopes_of_eight_heads(num_heads, n):
    return -slopes(8)[-num_heads:] * signed(n).abs()


def without_heads(num_heads, n):
    return -(2.0**-8) * signed(n).abs()


WRONG = {
    prefers_the_far: "distance",
    distance_with_its_sign: "distance",
    heads_from_zero: "distance",
    without_heads: "distance: shape",
    one_slope_for_all: "slopes",
    slopes_of_eight_heads: "slopes",
}
