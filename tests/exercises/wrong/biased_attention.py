"""What goes wrong in biased_attention."""

import torch


def scores_of(query, key):
    return query @ key.mT / query.shape[-1] ** 0.5


def right(query, key, value, attn_mask):
    scores = scores_of(query, key)
    if attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    else:
        scores = scores + attn_mask
    return torch.softmax(scores, -1) @ value


def adds_the_bools(query, key, value, attn_mask):
    return torch.softmax(scores_of(query, key) + attn_mask, -1) @ value


def true_forbids(query, key, value, attn_mask):
    return right(query, key, value, ~attn_mask if attn_mask.dtype == torch.bool else attn_mask)


def reads_numbers_as_yes_and_no(query, key, value, attn_mask):
    return right(query, key, value, attn_mask.bool())


def multiplies(query, key, value, attn_mask):
    if attn_mask.dtype == torch.bool:
        return right(query, key, value, attn_mask)
    return torch.softmax(scores_of(query, key) * attn_mask, -1) @ value


def after_the_softmax(query, key, value, attn_mask):
    if attn_mask.dtype == torch.bool:
        return right(query, key, value, attn_mask)
    return (torch.softmax(scores_of(query, key), -1) + attn_mask) @ value


def finite_minus_infinity(query, key, value, attn_mask):
    if attn_mask.dtype == torch.bool:
        return right(query, key, value, attn_mask)
    return right(query, key, value, attn_mask.clamp(min=-1e9))


def scales_the_mask_too(query, key, value, attn_mask):
    if attn_mask.dtype == torch.bool:
        return right(query, key, value, attn_mask)
    scores = (query @ key.mT + attn_mask) / query.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ value


WRONG = {
    adds_the_bools: "bools_forbid",
    true_forbids: "bools_forbid",
    reads_numbers_as_yes_and_no: "numbers_are_added",
    multiplies: "numbers_are_added",
    after_the_softmax: "numbers_are_added",
    finite_minus_infinity: "minus_infinity",
    scales_the_mask_too: "added_after_the_scale",
}
