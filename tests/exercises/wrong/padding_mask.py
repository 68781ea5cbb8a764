"""What goes wrong in padding_mask."""

import torch


def two_dimensions(lengths, m):
    return torch.arange(m) < lengths[:, None]


def wide(is_token):
    return is_token[:, None, None, :]


def true_is_padding(lengths, m):
    return wide(torch.arange(m) >= lengths[:, None])


def numbers(lengths, m):
    return wide(two_dimensions(lengths, m)).float()


def one_too_many(lengths, m):
    return wide(torch.arange(m) <= lengths[:, None])


def from_the_end(lengths, m):
    return wide(torch.arange(m) >= m - lengths[:, None])


def the_longest_for_all(lengths, m):
    return wide(two_dimensions(lengths.max().expand(len(lengths)), m))


def the_first_for_all(lengths, m):
    return wide(two_dimensions(lengths[:1].expand(len(lengths)), m))


WRONG = {
    two_dimensions: "true_is_a_token: shape",
    true_is_padding: "true_is_a_token",
    numbers: "true_is_a_token: dtype",
    one_too_many: "count",
    from_the_end: "count",
    the_longest_for_all: "each_sample",
    the_first_for_all: "each_sample",
}
