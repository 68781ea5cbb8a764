"""Scores: one dot product per key."""

from collections.abc import Iterator

from torch import Tensor

from attnref import similarity
from attnref.exercises.grading import Case, Grader
from attnref.exercises.samples import JOURNEY, SIX_WORDS, row, rows


def case(query: Tensor, key: Tensor) -> Case:
    scores = similarity.dot_scores(query[None], key, scale=1.0)  # (1, m)
    return Case({"query": query, "key": key}, scores[0])


def one_score_a_key() -> Iterator[Case]:
    # Vectors of length 1 and no obtuse angle: the other defects stay unseen.
    yield case(row(0.6, 0.8), rows([1.0, 0.0], [0.0, 1.0], [0.8, 0.6]))


def sign() -> Iterator[Case]:
    yield case(row(1.0, 0.0), rows([-1.0, 0.0], [0.0, 1.0], [0.6, 0.8]))


def length() -> Iterator[Case]:
    yield case(row(1.0, 1.0), rows([1.0, 1.0], [2.0, 2.0], [5.0, 0.0]))
    yield case(SIX_WORDS[JOURNEY], SIX_WORDS)


GRADER = Grader(checks=(one_score_a_key, sign, length), usual=((one_score_a_key, "shape"),))
