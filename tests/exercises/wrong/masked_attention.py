"""What goes wrong in masked_attention."""

import torch


def scores_of(query, key):
    return query @ key.mT / query.shape[-1] ** 0.5


def filled(query, key, value, forbidden, number):
    return torch.softmax(scores_of(query, key).masked_fill(forbidden, number), -1) @ value


def turned_round(query, key, value, attn_mask):
    return filled(query, key, value, attn_mask, -torch.inf)


def after_the_softmax(query, key, value, attn_mask):
    return (torch.softmax(scores_of(query, key), -1) * attn_mask) @ value


def score_of_zero(query, key, value, attn_mask):
    return torch.softmax(scores_of(query, key) * attn_mask, -1) @ value


def tiny_instead_of_very_negative(query, key, value, attn_mask):
    return filled(query, key, value, ~attn_mask, 1e-9)


def no_mask(query, key, value, attn_mask):
    return torch.softmax(scores_of(query, key), -1) @ value


def minus_a_milliard(query, key, value, attn_mask):
    return filled(query, key, value, attn_mask == 0, -1e9)


def written_in_place(query, key, value, attn_mask):
    scores = scores_of(query, key)
    scores[~attn_mask] = -torch.inf
    return torch.softmax(scores, -1) @ value


WRONG = {
    turned_round: "true_may_look",
    after_the_softmax: "sums_to_one",
    score_of_zero: "forbidden_is_nothing",
    tiny_instead_of_very_negative: "forbidden_is_nothing",
    no_mask: "forbidden_is_nothing",
    minus_a_milliard: "very_negative_scores",
    written_in_place: "broadcast: IndexError",
}
