"""Dropout on attention weights."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import row, rows


def case(weights: Tensor, dropout_p: float, noise: Tensor) -> Case:
    expected = torch.where(noise < dropout_p, 0.0, weights.double() / (1 - dropout_p)).float()
    return Case({"weights": weights, "dropout_p": dropout_p, "noise": noise}, expected)


def which_are_dropped() -> Iterator[Case]:
    # All of them: by what the others are multiplied stays unseen.
    yield case(row(0.25, 0.75), 0.5, row(0.1, 0.3))


def others_are_scaled() -> Iterator[Case]:
    yield case(row(0.5, 0.5), 0.75, row(0.9, 0.8))
    yield case(rows([0.2, 0.3, 0.5], [0.6, 0.3, 0.1]), 0.2, rows([0.1, 0.5, 0.9], [0.3, 0.0, 0.7]))


def nothing_is_dropped() -> Iterator[Case]:
    yield case(row(0.25, 0.75), 0.0, row(0.0, 0.5))


GRADER = Grader(
    checks=(which_are_dropped, others_are_scaled, nothing_is_dropped),
    without=frozenset({"dropout", "feature_dropout", "alpha_dropout"}),
)
