"""A small decoder made of functions of the course."""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import relu, rms_norm

from attnref.exercises import findings
from attnref.exercises.course.model.solution import D, H, new_weights, train
from attnref.exercises.grading import ATTENTION, Arguments, Case, Function, Grader, Observer

LARGEST_LOSS = 0.5


def one_letter() -> Iterator[Case]:
    # A word that is alone gets all the weight: its attention is its value.
    for tokens in (torch.tensor([9]), torch.tensor([[0], [25]])):
        weights = {name: weight.detach() for name, weight in new_weights().items()}
        x = weights["embedding"][tokens]
        keys, values = (rms_norm(x, (D,)) @ weights[name] for name in ("key", "value"))
        x = x + values @ weights["out"]
        x = x + relu(rms_norm(x, (D,)) @ weights["up"]) @ weights["down"]
        logits = rms_norm(x, (D,)) @ weights["embedding"].T
        past = tuple(torch.stack(each.chunk(H, -1), -3) for each in (keys, values))
        yield Case({"tokens": tokens, "weights": weights}, (logits, past))


def future() -> Iterator[Case]:
    def look(function: Function, arguments: Arguments) -> Tensor:
        tokens, weights = arguments.values()
        other = torch.cat([tokens[:-1], tokens[-1:] + 1])
        return _logits(function, other, weights)[:-1] - _logits(function, tokens, weights)[:-1]

    arguments = {"tokens": torch.tensor([9, 14, 20, 17]), "weights": new_weights()}
    yield Case(arguments, torch.zeros(3, 26), Observer(look, findings.THE_PAST))


def learns() -> Iterator[Case]:
    def look(function: Function, arguments: Arguments) -> float:
        *_, loss = train(function, copy.deepcopy(arguments["weights"]))
        return LARGEST_LOSS if loss <= LARGEST_LOSS else round(loss, 2)

    yield Case({"weights": new_weights()}, LARGEST_LOSS, Observer(look, findings.THE_LOSS))


def cached() -> Iterator[Case]:
    def look(function: Function, arguments: Arguments) -> Tensor:
        tokens, weights = arguments.values()
        past, steps = (torch.zeros(H, 0, D // H), torch.zeros(H, 0, D // H)), []
        for token in tokens:
            logits, past = function(token[None], weights, past)
            steps.append(logits)
        return torch.cat(steps) - _logits(function, tokens, weights)

    arguments = {"tokens": torch.tensor([9, 14, 20, 17]), "weights": new_weights()}
    yield Case(arguments, torch.zeros(4, 26), Observer(look, findings.THE_CACHE))


def _logits(function: Function, tokens: Tensor, weights: dict[str, Tensor]) -> Tensor:
    logits: Tensor = function(tokens, weights)[0]
    return logits


GRADER = Grader(checks=(one_letter, future, learns, cached), without=ATTENTION)
