"""What goes wrong in sealed_attention."""

import torch


def attention(query, key, value, is_token):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    scores = scores.masked_fill(~is_token[..., None, :], -torch.inf)
    return torch.softmax(scores, -1) @ value


def empty_value(value, is_token):
    return value.masked_fill(~is_token[..., None], 0.0)


def score_of_zero(query, key, value, is_token):
    key, value = empty_value(key, is_token), empty_value(value, is_token)
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value


def turned_round(query, key, value, is_token):
    return attention(query, empty_value(key, is_token), empty_value(value, is_token), ~is_token)


def trusts_in_a_weight_of_zero(query, key, value, is_token):
    return attention(query, key, value, is_token)


def multiplies_by_the_mask(query, key, value, is_token):
    return attention(query, key, value * is_token[..., None], is_token)


def adds_minus_infinity(query, key, value, is_token):
    bias = torch.zeros(is_token.shape).masked_fill(~is_token, -torch.inf)
    scores = query @ key.mT / query.shape[-1] ** 0.5 + bias[..., None, :]
    return torch.softmax(scores, -1) @ empty_value(value, is_token)


def hides_every_nan(query, key, value, is_token):
    return attention(query, key.nan_to_num(), value.nan_to_num(), is_token)


def leaves_the_keys(query, key, value, is_token):
    return attention(query, key, empty_value(value, is_token), is_token)


def without_gradient(query, key, value, is_token):
    key, value = empty_value(key, is_token), empty_value(value, is_token)
    return attention(query.detach(), key, value, is_token)


WRONG = {
    score_of_zero: "ordinary_numbers",
    turned_round: "ordinary_numbers",
    trusts_in_a_weight_of_zero: "nan_in_a_value",
    multiplies_by_the_mask: "nan_in_a_value",
    adds_minus_infinity: "nan_in_a_key",
    hides_every_nan: "visible_nan",
    leaves_the_keys: "gradients",
    without_gradient: "gradients: no gradient",
}
