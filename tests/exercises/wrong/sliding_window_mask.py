"""What goes wrong in sliding_window_mask."""

import torch


def distances(n):
    return torch.arange(n)[:, None] - torch.arange(n)


def without_the_own_token(n, window):
    return (distances(n) > 0) & (distances(n) <= window)


def true_forbids(n, window):
    return (distances(n) < 0) | (distances(n) >= window)


def both_sides(n, window):
    return distances(n).abs() < window


def upper_triangle(n, window):
    return (distances(n) <= 0) & (distances(n) > -window)


def one_too_many(n, window):
    return (distances(n) >= 0) & (distances(n) <= window)


def no_lower_end(n, window):
    return distances(n) >= 0


WRONG = {
    without_the_own_token: "own_token",
    true_forbids: "own_token",
    both_sides: "future",
    upper_triangle: "future",
    one_too_many: "count",
    no_lower_end: "count",
}
