"""What goes wrong in biased_attention."""

import torch


def scores_of(query, key):
    return query @ key.mT / query.shape[-1] ** 0.5


def is_bool(attn_mask):
    return attn_mask is None or attn_mask.dtype == torch.bool


def right(query, key, value, attn_mask=None):
    scores = scores_of(query, key)
    if attn_mask is None:
        pass
    elif attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    else:
        scores = scores + attn_mask
    return torch.softmax(scores, -1) @ value


def wants_a_mask(query, key, value, attn_mask):
    return right(query, key, value, attn_mask)


def asks_for_the_dtype_first(query, key, value, attn_mask=None):
    if attn_mask.dtype != torch.bool:
        return torch.softmax(scores_of(query, key) + attn_mask, -1) @ value
    return right(query, key, value, attn_mask)


def adds_the_bools(query, key, value, attn_mask=None):
    bias = 0.0 if attn_mask is None else attn_mask
    return torch.softmax(scores_of(query, key) + bias, -1) @ value


def true_forbids(query, key, value, attn_mask=None):
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = ~attn_mask
    return right(query, key, value, attn_mask)


def reads_numbers_as_yes_and_no(query, key, value, attn_mask=None):
    return right(query, key, value, None if attn_mask is None else attn_mask.bool())


def multiplies(query, key, value, attn_mask=None):
    if is_bool(attn_mask):
        return right(query, key, value, attn_mask)
    return torch.softmax(scores_of(query, key) * attn_mask, -1) @ value


def after_the_softmax(query, key, value, attn_mask=None):
    if is_bool(attn_mask):
        return right(query, key, value, attn_mask)
    return (torch.softmax(scores_of(query, key), -1) + attn_mask) @ value


def finite_minus_infinity(query, key, value, attn_mask=None):
    if is_bool(attn_mask):
        return right(query, key, value, attn_mask)
    return right(query, key, value, attn_mask.clamp(min=-1e9))


def scales_the_mask_too(query, key, value, attn_mask=None):
    if is_bool(attn_mask):
        return right(query, key, value, attn_mask)
    scores = (query @ key.mT + attn_mask) / query.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ value


WRONG = {
    wants_a_mask: "no_mask: TypeError",
    asks_for_the_dtype_first: "no_mask: AttributeError",
    adds_the_bools: "bools_forbid",
    true_forbids: "bools_forbid",
    reads_numbers_as_yes_and_no: "numbers_are_added",
    multiplies: "numbers_are_added",
    after_the_softmax: "numbers_are_added",
    finite_minus_infinity: "minus_infinity",
    scales_the_mask_too: "added_after_the_scale",
}
