"""What goes wrong in safe_softmax."""

import torch


def zeros_for_nan(scores):
    return torch.nan_to_num(torch.softmax(scores, -1))


def not_shifted(scores):
    powers = torch.exp(scores)
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-9)


def nan(scores):
    return torch.softmax(scores, -1)


def very_negative_numbers(scores):
    return torch.softmax(scores.clamp(min=-1e9), -1)


def zeros_for_everybody(scores):
    empty = (scores == -torch.inf).all(-1).any()
    return torch.zeros_like(scores) if empty else torch.softmax(scores, -1)


def empties_if_all_are_empty(scores):
    empty = (scores == -torch.inf).all()
    return torch.zeros_like(scores) if empty else torch.softmax(scores, -1)


def chosen_afterwards(scores):
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return torch.where(empty, 0.0, torch.softmax(scores, -1))


WRONG = {
    not_shifted: "ordinary_rows",
    nan: "empty_row",
    very_negative_numbers: "empty_row",
    zeros_for_everybody: "other_rows",
    empties_if_all_are_empty: "other_rows",
    zeros_for_nan: "gradients",
    chosen_afterwards: "gradients",
}
