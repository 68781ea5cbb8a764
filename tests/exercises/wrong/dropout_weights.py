"""What goes wrong in dropout_weights."""

import torch


def share_to_keep(weights, dropout_p, noise):
    return torch.where(noise < dropout_p, weights / dropout_p, 0.0)


def written_in_place(weights, dropout_p, noise):
    weights[noise < dropout_p] = 0.0
    return weights / (1 - dropout_p)


def library(weights, dropout_p, noise):
    return torch.nn.functional.dropout(weights, dropout_p)


def no_factor(weights, dropout_p, noise):
    return torch.where(noise < dropout_p, 0.0, weights)


def factor_of_the_dropped(weights, dropout_p, noise):
    return torch.where(noise < dropout_p, 0.0, weights / dropout_p)


def normalised_again(weights, dropout_p, noise):
    kept = torch.where(noise < dropout_p, 0.0, weights)
    return kept / kept.sum(-1, keepdim=True).clamp(min=1e-9)


def drops_at_the_border(weights, dropout_p, noise):
    return torch.where(noise <= dropout_p, 0.0, weights / (1 - dropout_p))


WRONG = {
    share_to_keep: "which_are_dropped",
    written_in_place: "which_are_dropped: changed",
    library: "which_are_dropped: shortcut",
    no_factor: "others_are_scaled",
    factor_of_the_dropped: "others_are_scaled",
    normalised_again: "others_are_scaled",
    drops_at_the_border: "nothing_is_dropped",
}
