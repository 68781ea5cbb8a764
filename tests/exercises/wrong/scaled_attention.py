"""What goes wrong in scaled_attention."""

import torch


def attention(query, key, value, scale):
    return torch.softmax(scale * (query @ key.mT), -1) @ value


def no_factor(query, key, value, scale=1.0):
    return attention(query, key, value, scale)


def without_the_root(query, key, value, scale=None):
    return attention(query, key, value, 1 / query.shape[-1] if scale is None else scale)


def times_the_root(query, key, value, scale=None):
    return attention(query, key, value, query.shape[-1] ** 0.5 if scale is None else scale)


def after_the_softmax(query, key, value, scale=None):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return scale * attention(query, key, value, 1.0)


def root_of_the_number_of_keys(query, key, value, scale=None):
    return attention(query, key, value, key.shape[-2] ** -0.5 if scale is None else scale)


def root_of_the_width_of_values(query, key, value, scale=None):
    return attention(query, key, value, value.shape[-1] ** -0.5 if scale is None else scale)


def ignores_the_scale(query, key, value, scale=None):
    return attention(query, key, value, query.shape[-1] ** -0.5)


def divides_by_the_scale(query, key, value, scale=None):
    return attention(query, key, value, 1 / (query.shape[-1] ** 0.5 if scale is None else scale))


def both_factors(query, key, value, scale=None):
    scale = 1.0 if scale is None else scale
    return attention(query, key, value, scale * query.shape[-1] ** -0.5)


def takes_zero_for_nothing(query, key, value, scale=None):
    return attention(query, key, value, scale or query.shape[-1] ** -0.5)


WRONG = {
    no_factor: "square_root",
    without_the_root: "square_root",
    times_the_root: "square_root",
    after_the_softmax: "square_root",
    root_of_the_number_of_keys: "width",
    root_of_the_width_of_values: "width",
    ignores_the_scale: "given_scale",
    divides_by_the_scale: "given_scale",
    both_factors: "given_scale",
    takes_zero_for_nothing: "scale_of_zero",
}
