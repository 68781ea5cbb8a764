"""What goes wrong in stable_softmax."""

import torch


def shifted(scores, shift):
    powers = torch.exp(scores - shift)
    return powers / powers.sum(-1, keepdim=True)


def library(scores):
    return torch.nn.functional.softmax(scores, -1)


def powers_of_two(scores):
    powers = torch.exp2(scores)
    return powers / powers.sum(-1, keepdim=True)


def one_sum_for_all_rows(scores):
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return powers / powers.sum()


def maximum_without_its_dimension(scores):
    return shifted(scores, scores.amax(-1))


def formula_as_it_stands(scores):
    return shifted(scores, 0.0)


def cut_at_a_limit(scores):
    return shifted(scores.clamp(max=80.0), 0.0)


def less_the_mean(scores):
    return shifted(scores, scores.mean(-1, keepdim=True))


def less_the_smallest(scores):
    return shifted(scores, scores.amin(-1, keepdim=True))


def less_the_largest_of_all(scores):
    return shifted(scores, scores.max())


WRONG = {
    library: "differences: shortcut",
    powers_of_two: "differences",
    one_sum_for_all_rows: "each_row",
    maximum_without_its_dimension: "each_row: RuntimeError",
    formula_as_it_stands: "large_scores",
    cut_at_a_limit: "large_scores",
    less_the_mean: "spread_scores",
    less_the_smallest: "spread_scores",
    less_the_largest_of_all: "own_maximum",
}
