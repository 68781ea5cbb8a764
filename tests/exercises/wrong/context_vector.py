"""What goes wrong in context_vector."""

import torch


def scores_without_softmax(inputs, position):
    return (inputs @ inputs[position]) @ inputs


def powers_without_division(inputs, position):
    return torch.exp(inputs @ inputs[position]) @ inputs


def counts_from_one(inputs, position):
    return torch.softmax(inputs @ inputs[position - 1], -1) @ inputs


def journey_always_asks(inputs, position):
    return torch.softmax(inputs @ inputs[1], -1) @ inputs


def leaves_itself_out(inputs, position):
    scores = inputs @ inputs[position]
    scores[position] = -torch.inf
    return torch.softmax(scores, -1) @ inputs


def divides_by_the_sum(inputs, position):
    scores = inputs @ inputs[position]
    return scores / scores.sum() @ inputs


def scaled(inputs, position):
    scores = inputs @ inputs[position]
    return torch.softmax(scores / inputs.shape[-1] ** 0.5, -1) @ inputs


WRONG = {
    scores_without_softmax: "average",
    powers_without_division: "average",
    counts_from_one: "asker",
    journey_always_asks: "asker",
    leaves_itself_out: "asker",
    divides_by_the_sum: "softmax_weights",
    scaled: "softmax_weights",
}
