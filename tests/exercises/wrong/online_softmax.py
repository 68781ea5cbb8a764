"""What goes wrong in online_softmax."""

import torch

START = (torch.tensor(-torch.inf), torch.tensor(0.0))


def not_shifted(blocks):
    maximum, normaliser = START
    for block in blocks:
        maximum = torch.maximum(maximum, block.max())
        normaliser = normaliser + block.exp().sum()
    return maximum, normaliser


def reads_twice(blocks):
    maximum = torch.stack([block.max() for block in blocks]).max()
    powers = [torch.exp(block - maximum).sum() for block in blocks]  # of none: it is empty now
    return maximum, sum(powers, torch.tensor(0.0))


def python_numbers(blocks):
    maximum, normaliser = all_at_once(blocks)
    return maximum.item(), normaliser.item()


def own_maximum_of_each_block(blocks):
    maximum, normaliser = START
    for block in blocks:
        maximum = torch.maximum(maximum, block.max())
        normaliser = normaliser + torch.exp(block - block.max()).sum()
    return maximum, normaliser


def latest_maximum(blocks):
    maximum, normaliser = START
    for block in blocks:
        previous, maximum = maximum, block.max()
        normaliser = normaliser * torch.exp(previous - maximum) + torch.exp(block - maximum).sum()
    return maximum, normaliser


def never_rescales(blocks):
    maximum, normaliser = START
    for block in blocks:
        maximum = torch.maximum(maximum, block.max())
        normaliser = normaliser + torch.exp(block - maximum).sum()
    return maximum, normaliser


def rescales_the_other_way(blocks):
    maximum, normaliser = None, torch.tensor(0.0)
    for block in blocks:
        previous = block.max() if maximum is None else maximum
        maximum = torch.maximum(previous, block.max())
        normaliser = normaliser * torch.exp(maximum - previous) + torch.exp(block - maximum).sum()
    return maximum, normaliser


def shifts_at_the_end(blocks):
    maximum, normaliser = not_shifted(blocks)
    return maximum, normaliser / maximum.exp()


def all_at_once(blocks):
    scores = torch.cat(list(blocks))
    return scores.max(), torch.exp(scores - scores.max()).sum()


def library(blocks):
    scores = torch.cat(list(blocks))
    return scores.max(), torch.exp(torch.logsumexp(scores, 0) - scores.max())


WRONG = {
    not_shifted: "one_block",
    reads_twice: "one_block",
    python_numbers: "one_block: type",
    library: "one_block: shortcut",
    own_maximum_of_each_block: "falling",
    latest_maximum: "falling",
    never_rescales: "rising",
    rescales_the_other_way: "rising",
    shifts_at_the_end: "large_scores",
    all_at_once: "one_at_a_time",
}
