"""What goes wrong in linear_attention_step."""

import torch
from torch.nn.functional import elu


def features(x):
    return elu(x) + 1


def output(q, key_value, normaliser):
    return (q[..., None, :] @ key_value).squeeze(-2) / (q * normaliser).sum(-1, keepdim=True)


def grown(k, value, key_value, normaliser):
    return key_value + k[..., :, None] * value[..., None, :], normaliser + k


def output_before_the_update(query, key, value, key_value, normaliser):
    state = grown(features(key), value, key_value, normaliser)
    return output(features(query), key_value, normaliser), *state


def no_division(query, key, value, key_value, normaliser):
    state = grown(features(key), value, key_value, normaliser)
    return (features(query)[..., None, :] @ state[0]).squeeze(-2), *state


def forgets_the_past(query, key, value, key_value, normaliser):
    state = grown(features(key), value, 0 * key_value, 0 * normaliser)
    return output(features(query), *state), *state


def returns_the_old_state(query, key, value, key_value, normaliser):
    state = grown(features(key), value, key_value, normaliser)
    if normaliser.any():
        return output(features(query), *state), key_value, normaliser
    return output(features(query), *state), *state


def changes_the_state(query, key, value, key_value, normaliser):
    k = features(key)
    key_value += k[..., :, None] * value[..., None, :]
    normaliser += k
    return output(features(query), key_value, normaliser), key_value, normaliser


def relu(query, key, value, key_value, normaliser):
    # Plus 1 at and above 0, where the first two checks look.
    q, k = query.relu() + 1, key.relu() + 1
    state = grown(k, value, key_value, normaliser)
    return output(q, *state), *state


def outer_of_vectors(query, key, value, key_value, normaliser):
    k = features(key)
    state = key_value + torch.outer(k, value), normaliser + k
    return output(features(query), *state), *state


WRONG = {
    output_before_the_update: "first_token",
    no_division: "first_token",
    changes_the_state: "first_token: changed",
    forgets_the_past: "carries_the_past",
    returns_the_old_state: "carries_the_past",
    relu: "features",
    outer_of_vectors: "batch: RuntimeError",
}
