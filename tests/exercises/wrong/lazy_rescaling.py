"""What goes wrong in lazy_rescaling."""

import torch


def step(scores, value, new, factor, normaliser, sums, *, both=(True, True)):
    powers = torch.exp2(scores - new)
    normaliser = (factor if both[0] else 1.0) * normaliser + powers.sum(-1, keepdim=True)
    return new, normaliser, (factor if both[1] else 1.0) * sums + powers @ value


def risen(scores, top):
    highest = torch.maximum(top, scores.amax(-1, keepdim=True))
    return highest, highest - top > 8


def keeps_the_start(scores, value, top, normaliser, sums):
    largest = scores.amax(-1, keepdim=True)
    new = torch.where(largest > top.abs() + 8, largest, top)
    return step(scores, value, new, torch.exp2(top - new), normaliser, sums)


def maximum_of_the_block(scores, value, top, normaliser, sums):
    new = scores.amax(-1, keepdim=True)
    return step(scores, value, new, torch.exp2(top - new), normaliser, sums)


def each_rise(scores, value, top, normaliser, sums):
    new, _ = risen(scores, top)
    return step(scores, value, new, torch.exp2(top - new), normaliser, sums)


def from_eight_on(scores, value, top, normaliser, sums):
    highest, _ = risen(scores, top)
    new = torch.where(highest - top >= 8, highest, top)
    return step(scores, value, new, torch.exp2(top - new), normaliser, sums)


def leaves_the_normaliser(scores, value, top, normaliser, sums):
    highest, rises = risen(scores, top)
    new = torch.where(rises, highest, top)
    return step(scores, value, new, torch.exp2(top - new), normaliser, sums, both=(False, True))


def leaves_the_output(scores, value, top, normaliser, sums):
    highest, rises = risen(scores, top)
    new = torch.where(rises, highest, top)
    return step(scores, value, new, torch.exp2(top - new), normaliser, sums, both=(True, False))


def the_other_way(scores, value, top, normaliser, sums):
    highest, rises = risen(scores, top)
    new = torch.where(rises, highest, top)
    factor = torch.exp2(new - top).nan_to_num(posinf=0.0)
    return step(scores, value, new, factor, normaliser, sums)


def renews_once(scores, value, top, normaliser, sums):
    highest, rises = risen(scores, top)
    rises = rises & ((top == -torch.inf) | (highest - top < 100))
    new = torch.where(rises, highest, top)
    return step(scores, value, new, torch.exp2(top - new), normaliser, sums)


def undoes_and_divides(scores, value, top, normaliser, sums):
    highest, rises = risen(scores, top)
    new = torch.where(rises, highest, top)
    return step(scores, value, new, torch.exp2(top) / torch.exp2(new), normaliser, sums)


def all_rows_together(scores, value, top, normaliser, sums):
    highest, rises = risen(scores, top)
    new = highest if rises.any() else top
    return step(scores, value, new, torch.exp2(top - new), normaliser, sums)


WRONG = {
    keeps_the_start: "first_block",
    maximum_of_the_block: "falling",
    each_rise: "small_rise",
    from_eight_on: "at_the_threshold",
    leaves_the_normaliser: "large_rise",
    leaves_the_output: "large_rise",
    the_other_way: "large_rise",
    renews_once: "large_scores",
    undoes_and_divides: "large_scores",
    all_rows_together: "each_row_its_own",
}
