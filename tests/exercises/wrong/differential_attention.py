"""What goes wrong in differential_attention."""

import torch


def weights(q, k, width=None):
    return torch.softmax(q @ k.mT / (width or q.shape[-1]) ** 0.5, dim=-1)


def maps(query, key, width=None):
    halves = zip(query.chunk(2, -1), key.chunk(2, -1), strict=True)
    return [weights(q, k, width) for q, k in halves]


def added(query, key, value, factor):
    first, second = maps(query, key)
    return (first + factor * second) @ value


def without_the_factor(query, key, value, factor):
    first, second = maps(query, key)
    return (first - second) @ value


def summing_to_one(query, key, value, factor):
    first, second = maps(query, key)
    difference = first - factor * second
    return difference / difference.sum(-1, keepdim=True) @ value


def first_map_only(query, key, value, factor):
    return maps(query, key)[0] @ value


def even_and_odd(query, key, value, factor):
    first, second = (weights(query[..., i::2], key[..., i::2]) for i in (0, 1))
    return (first - factor * second) @ value


def exchanged(query, key, value, factor):
    second, first = maps(query, key)
    return (first - factor * second) @ value


def one_softmax_for_both(query, key, value, factor):
    scores = [
        q @ k.mT / q.shape[-1] ** 0.5
        for q, k in zip(query.chunk(2, -1), key.chunk(2, -1), strict=True)
    ]
    return (1 - factor) * torch.softmax(scores[0] - factor * scores[1], -1) @ value


def scale_of_both_halves(query, key, value, factor):
    first, second = maps(query, key, query.shape[-1])
    return (first - factor * second) @ value


def no_scale(query, key, value, factor):
    first, second = maps(query, key, 1)
    return (first - factor * second) @ value


def without_a_batch(query, key, value, factor):
    d = query.shape[1] // 2
    first, second = (
        torch.softmax(query[:, part] @ key[:, part].T / d**0.5, dim=-1)
        for part in (slice(0, d), slice(d, 2 * d))
    )
    return (first - factor * second) @ value


WRONG = {
    added: "difference",
    without_the_factor: "difference",
    summing_to_one: "difference",
    first_map_only: "difference",
    even_and_odd: "halves",
    exchanged: "halves",
    one_softmax_for_both: "halves",
    scale_of_both_halves: "scale_of_one_half",
    no_scale: "scale_of_one_half",
    without_a_batch: "batch: RuntimeError",
}
