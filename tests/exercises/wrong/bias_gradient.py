"""What goes wrong in bias_gradient."""

import torch


def along(grad, offsets, reduce=torch.sum):
    return torch.stack([reduce(grad.diagonal(t, -2, -1), -1) for t in offsets], dim=-1)


def means(grad):
    return along(grad, range(1 - grad.shape[-2], grad.shape[-1]), torch.mean)


def over_the_rows(grad):
    return grad.sum(-2)


def the_other_way(grad):
    return along(grad.flip(-1), range(1 - grad.shape[-2], grad.shape[-1]))


def reversed_order(grad):
    return along(grad, range(grad.shape[-1] - 1, -grad.shape[-2], -1))


def as_if_square(grad):
    n = grad.shape[-2]
    return along(grad, range(1 - n, n))


def exchanged(grad):
    n, m = grad.shape[-2:]
    return along(grad.mT, range(1 - m, n)) if n != m else along(grad, range(1 - n, m))


def the_first_two_dimensions(grad):
    n, m = grad.shape[:2]
    return torch.stack([grad.diagonal(t).sum(-1) for t in range(1 - n, m)], dim=-1)


def without_a_batch(grad):
    n, m = grad.shape
    sums = torch.zeros(n + m - 1)
    for i in range(n):
        sums[n - 1 - i : n - 1 - i + m] += grad[i]
    return sums


WRONG = {
    means: "one_sum_per_distance",
    over_the_rows: "one_sum_per_distance: shape",
    the_other_way: "from_far_behind_to_far_ahead",
    reversed_order: "from_far_behind_to_far_ahead",
    as_if_square: "queries_and_keys: shape",
    exchanged: "queries_and_keys",
    the_first_two_dimensions: "batch: shape",
    without_a_batch: "batch: ValueError",
}
