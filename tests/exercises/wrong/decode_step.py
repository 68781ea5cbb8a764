"""What goes wrong in decode_step."""

import torch


def attention(query, key, value):
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value


def joined(key, value, past_key, past_value):
    return torch.cat([past_key, key], -2), torch.cat([past_value, value], -2)


def the_past_only(query, key, value, past_key, past_value):
    output = attention(query, past_key, past_value)
    return output, *joined(key, value, past_key, past_value)


def output_only(query, key, value, past_key, past_value):
    return attention(query, *joined(key, value, past_key, past_value))


def newest_first(query, key, value, past_key, past_value):
    keys, values = joined(past_key, past_value, key, value)
    return attention(query, keys, values), keys, values


def forgets_the_new_token(query, key, value, past_key, past_value):
    keys, values = joined(key, value, past_key, past_value)
    if past_key.shape[-2]:
        return attention(query, keys, values), past_key, past_value
    return attention(query, keys, values), keys, values


def the_present_only(query, key, value, past_key, past_value):
    return attention(query, key, value), *joined(key, value, past_key, past_value)


def causal_from_the_beginning(query, key, value, past_key, past_value):
    keys, values = joined(key, value, past_key, past_value)
    return attention(query, keys[..., :1, :], values[..., :1, :]), keys, values


def no_scale(query, key, value, past_key, past_value):
    keys, values = joined(key, value, past_key, past_value)
    return torch.softmax(query @ keys.mT, -1) @ values, keys, values


WRONG = {
    the_past_only: "first_token",
    output_only: "first_token: type",
    newest_first: "newest_comes_last",
    forgets_the_new_token: "newest_comes_last: shape",
    the_present_only: "sees_all",
    causal_from_the_beginning: "sees_all",
    no_scale: "scale",
}
