"""What goes wrong in sum_normalise."""

import torch


def divides_by_the_largest(scores):
    return scores / scores.amax(-1, keepdim=True)


def divides_by_their_number(scores):
    return scores / scores.shape[-1]


def softmax(scores):
    return torch.softmax(scores, -1)


def one_sum_for_all_rows(scores):
    return scores / scores.sum()


def sum_of_each_column(scores):
    return scores / scores.sum(0)


def sum_without_its_dimension(scores):
    return scores / scores.sum(-1)


WRONG = {
    divides_by_the_largest: "sums_to_one",
    divides_by_their_number: "sums_to_one",
    softmax: "ratios",
    one_sum_for_all_rows: "each_row",
    sum_of_each_column: "each_row",
    sum_without_its_dimension: "each_row: RuntimeError",
}
