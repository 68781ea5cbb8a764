"""Grouped heads, from public reports."""

import torch


# HazyResearch/HipKittens#22 (2025): blocks are mapped to query heads with the size of the group for
# the number of key heads, so some heads are computed twice and others never, unless the two are
# equal; right: each head once, with key head i // (h / h_kv).
def bad_head_map(query, key, value, enable_gqa=False):
    size = query.shape[1] // key.shape[1]
    return _by_block(query, key, value, lambda block: block % size * size + block // size)


def good_head_map(query, key, value, enable_gqa=False):
    size, groups = query.shape[1] // key.shape[1], key.shape[1]
    return _by_block(query, key, value, lambda block: block % groups * size + block // groups)


def _by_block(query, key, value, head_of):
    h = query.shape[1]
    output = [torch.zeros_like(query[:, 0, :, :1]).expand(-1, -1, value.shape[-1])] * h
    for block in range(h):
        head = head_of(block)
        if head < h:  # a kernel would write elsewhere
            shared = head * key.shape[1] // h
            scores = query[:, head] @ key[:, shared].mT * query.shape[-1] ** -0.5
            output[head] = torch.softmax(scores, -1) @ value[:, shared]
    return torch.stack(output, 1)
