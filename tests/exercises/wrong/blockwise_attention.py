"""What goes wrong in blockwise_attention."""

import torch


def pairs(key, value, block_size):
    return zip(key.split(block_size, -2), value.split(block_size, -2), strict=True)


def online(query, blocks, *, scale=None, start=-torch.inf, rescale_total=True, divide=True):
    query = query * (query.shape[-1] ** -0.5 if scale is None else scale)
    maximum = query.new_full((*query.shape[:-1], 1), start)
    normaliser, total = torch.zeros_like(maximum), 0.0
    for key, value in blocks:
        scores = query @ key.mT
        previous, maximum = maximum, torch.maximum(maximum, scores.amax(-1, keepdim=True))
        factor, powers = torch.exp(previous - maximum), torch.exp(scores - maximum)
        normaliser = normaliser * factor + powers.sum(-1, keepdim=True)
        total = total * (factor if rescale_total else 1.0) + powers @ value
    return total / normaliser if divide else total


def no_scale(query, key, value, block_size):
    return online(query, pairs(key, value, block_size), scale=1.0)


def no_division(query, key, value, block_size):
    return online(query, pairs(key, value, block_size), divide=False)


def mean_of_the_blocks(query, key, value, block_size):
    outputs = [online(query, [pair]) for pair in pairs(key, value, block_size)]
    return torch.stack(outputs).mean(0)


def rescales_one_of_two(query, key, value, block_size):
    return online(query, pairs(key, value, block_size), rescale_total=False)


def loses_the_rest(query, key, value, block_size):
    count = max(1, key.shape[-2] // block_size)
    return online(query, list(pairs(key, value, block_size))[:count])


def not_shifted(query, key, value, block_size):
    normaliser = total = 0.0
    for key_block, value_block in pairs(key, value, block_size):
        powers = torch.exp(query @ key_block.mT / query.shape[-1] ** 0.5)
        normaliser, total = normaliser + powers.sum(-1, keepdim=True), total + powers @ value_block
    return total / normaliser


def maximum_from_zero(query, key, value, block_size):
    return online(query, pairs(key, value, block_size), start=0.0)


def all_the_scores_first(query, key, value, block_size):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    maximum = scores.amax(-1, keepdim=True)
    normaliser = total = 0.0
    for part, block in zip(scores.split(block_size, -1), value.split(block_size, -2), strict=True):
        powers = torch.exp(part - maximum)
        normaliser, total = normaliser + powers.sum(-1, keepdim=True), total + powers @ block
    return total / normaliser


def ordinary(query, key, value, block_size):
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value


WRONG = {
    no_scale: "one_block",
    no_division: "one_block",
    mean_of_the_blocks: "even_blocks",
    rescales_one_of_two: "even_blocks",
    loses_the_rest: "last_block",
    not_shifted: "large_scores",
    maximum_from_zero: "large_scores",
    all_the_scores_first: "never_the_whole",
    ordinary: "never_the_whole",
}
