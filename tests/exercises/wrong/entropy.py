"""What goes wrong in entropy."""

import torch


def bits(weights):
    return -(weights * weights.log2()).sum(-1)


def no_minus(weights):
    return torch.xlogy(weights, weights).sum(-1)


def mean(weights):
    return -torch.xlogy(weights, weights).mean(-1)


def mean_of_the_logarithms(weights):
    return -weights.log().mean(-1)


def logarithm_of_the_largest(weights):
    return -weights.amax(-1).log()


def sum_of_squares(weights):
    return -weights.square().sum(-1).log()


def formula_as_it_stands(weights):
    return -(weights * weights.log()).sum(-1)


def one_number_for_all(weights):
    return -torch.xlogy(weights, weights).sum()


WRONG = {
    bits: "all_alike",
    no_minus: "all_alike",
    mean: "all_alike",
    mean_of_the_logarithms: "weighted",
    logarithm_of_the_largest: "weighted",
    sum_of_squares: "weighted",
    formula_as_it_stands: "weight_of_zero",
    one_number_for_all: "each_row: shape",
}
