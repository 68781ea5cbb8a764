"""What goes wrong in grouped_query_attention."""

import torch


def attention(query, key, value):
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value


def first_head_for_all(query, key, value):
    return attention(query, key[..., :1, :, :], value[..., :1, :, :])


def mean_of_the_heads(query, key, value):
    return attention(query, key.mean(-3, keepdim=True), value.mean(-3, keepdim=True))


def not_shared(query, key, value):
    return attention(query, key, value)


def dealt_out_in_turn(query, key, value):
    times = query.shape[-3] // key.shape[-3]
    return attention(query, torch.cat([key] * times, -3), torch.cat([value] * times, -3))


def groups_of_two(query, key, value):
    if key.shape[-3] == query.shape[-3]:
        return attention(query, key, value)
    return attention(query, key.repeat_interleave(2, -3), value.repeat_interleave(2, -3))


def counted_from_the_front(query, key, value):
    group = query.shape[0] // key.shape[0]
    return attention(query, key.repeat_interleave(group, 0), value.repeat_interleave(group, 0))


WRONG = {
    first_head_for_all: "as_many",
    mean_of_the_heads: "as_many",
    not_shared: "neighbours_share: RuntimeError",
    dealt_out_in_turn: "neighbours_share",
    groups_of_two: "any_group: RuntimeError",
    counted_from_the_front: "batch: RuntimeError",
}
