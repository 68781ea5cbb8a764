"""What goes wrong in delta_rule_step."""

import torch


def say(tokens, state):
    return (tokens[..., None, :] @ state).squeeze(-2)


def faded(decay, state):
    return decay[..., None, None] * state


def corrected(key, change, state):
    return state + key[..., :, None] * change[..., None, :]


def read(query, state):
    return say(query, state) / query.shape[-1] ** 0.5


def adds(query, key, value, decay, beta, state):
    state = corrected(key, beta[..., None] * value, faded(decay, state))
    return read(query, state), state


def reads_before(query, key, value, decay, beta, state):
    state = faded(decay, state)
    new = corrected(key, beta[..., None] * (value - say(key, state)), state)
    return read(query, state), new


def returns_the_old_state(query, key, value, decay, beta, state):
    faint = faded(decay, state)
    new = corrected(key, beta[..., None] * (value - say(key, faint)), faint)
    return read(query, new), state


def changes_the_state(query, key, value, decay, beta, state):
    state *= decay[..., None, None]
    state += key[..., :, None] * (beta[..., None] * (value - say(key, state)))[..., None, :]
    return read(query, state), state


def replaces_all(query, key, value, decay, beta, state):
    state = faded(decay, state)
    state = corrected(key, value - say(key, state), state)
    return read(query, state), state


def a_share_of_the_new_only(query, key, value, decay, beta, state):
    state = faded(decay, state)
    state = corrected(key, beta[..., None] * value - say(key, state), state)
    return read(query, state), state


def does_not_fade(query, key, value, decay, beta, state):
    state = corrected(key, beta[..., None] * (value - say(key, state)), state)
    return read(query, state), state


def fades_at_the_end(query, key, value, decay, beta, state):
    state = corrected(key, beta[..., None] * (value - say(key, state)), state)
    state = faded(decay, state)
    return read(query, state), state


def asks_the_state_of_before(query, key, value, decay, beta, state):
    change = beta[..., None] * (value - say(key, state))
    state = corrected(key, change, faded(decay, state))
    return read(query, state), state


def no_scale(query, key, value, decay, beta, state):
    state = faded(decay, state)
    state = corrected(key, beta[..., None] * (value - say(key, state)), state)
    return say(query, state), state


def outer_of_vectors(query, key, value, decay, beta, state):
    state = faded(decay, state)
    state = state + torch.outer(key, beta * (value - say(key, state)))
    return read(query, state), state


WRONG = {
    adds: "replaces",
    reads_before: "replaces",
    returns_the_old_state: "replaces",
    changes_the_state: "replaces: changed",
    replaces_all: "by_a_share",
    a_share_of_the_new_only: "by_a_share",
    does_not_fade: "forgets_first",
    fades_at_the_end: "forgets_first",
    asks_the_state_of_before: "forgets_first",
    no_scale: "scale",
    outer_of_vectors: "batch: RuntimeError",
}
