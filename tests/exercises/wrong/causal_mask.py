"""What goes wrong in causal_mask."""

import torch


def everything(n, m):
    return torch.ones(n, m, dtype=torch.bool)


def without_the_diagonal(n, m):
    return everything(n, m).tril(m - n - 1)


def true_forbids(n, m):
    return ~everything(n, m).tril(m - n)


def numbers(n, m):
    return torch.ones(n, m).tril(m - n)


def upper_triangle(n, m):
    return everything(n, m).triu(m - n)


def both_begin_together(n, m):
    return everything(n, m).tril()


def for_a_square_only(n, m):
    return everything(n, n).tril()


WRONG = {
    without_the_diagonal: "own_token",
    true_forbids: "own_token",
    numbers: "own_token: dtype",
    everything: "future",
    upper_triangle: "future",
    both_begin_together: "cached",
    for_a_square_only: "cached: shape",
}
