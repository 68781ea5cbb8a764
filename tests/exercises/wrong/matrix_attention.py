"""What goes wrong in matrix_attention."""

import torch
from torch.nn.functional import scaled_dot_product_attention


def library(query, key, value):
    return scaled_dot_product_attention(query, key, value, scale=1.0)


def averages_the_keys(query, key, value):
    return torch.softmax(query @ key.mT, -1) @ key


def no_softmax(query, key, value):
    return query @ key.mT @ value


def softmax_along_the_queries(query, key, value):
    return torch.softmax(query @ key.mT, -2) @ value


def softmax_along_the_first_dimension(query, key, value):
    return torch.softmax(query @ key.mT, 0) @ value


def scaled(query, key, value):
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value


def moves_the_batch(query, key, value):
    return torch.softmax(query @ key.transpose(0, 1), -1) @ value


WRONG = {
    library: "roles: shortcut",
    averages_the_keys: "roles",
    no_softmax: "roles",
    softmax_along_the_queries: "shares",
    softmax_along_the_first_dimension: "shares",
    scaled: "numbers",
    moves_the_batch: "batch",
}
