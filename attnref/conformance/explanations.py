"""Known ways to be wrong: what an output that is not attention's is compared with."""

from collections.abc import Callable

import torch
from torch import Tensor

from attnref.conformance.case import Case
from attnref.text import Text

_Way = Callable[[Tensor, Tensor, Tensor], Tensor]

_CLOSE = 1e-3  # of the size of the output; two ways that are this close need no telling apart


def explain(case: Case, got: Tensor) -> Text | None:
    """The way of computing it that gives ``got``, None when none is known."""
    got = got.double()
    for text, way in WAYS.items():
        made = way(case.query, case.key, case.value)
        if bool(((made - got).abs() <= _CLOSE * (1.0 + made.abs())).all()):
            return text
    return None


def _scores(q: Tensor, k: Tensor) -> Tensor:
    scores: Tensor = q @ k.mT * q.shape[-1] ** -0.5  # (..., n, m)
    return scores


def _softmax(scores: Tensor, allowed: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(~allowed, -torch.inf), -1).nan_to_num(0.0) @ v


def _triangle(q: Tensor, k: Tensor, diagonal: int) -> Tensor:
    return torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(diagonal)


def _unit(tensor: Tensor) -> Tensor:
    return torch.nn.functional.normalize(tensor, dim=-1)


WAYS: dict[Text, _Way] = {
    Text(
        "the softmax ran over the queries (dim=-2) instead of the keys (dim=-1)"
    ): lambda q, k, v: torch.softmax(_scores(q, k), -2) @ v,
    Text("the softmax ran over the heads (dim=1) instead of the keys (dim=-1)"): lambda q, k, v: (
        torch.softmax(_scores(q, k), 1) @ v
    ),
    Text("the softmax ran over the batch (dim=0) instead of the keys (dim=-1)"): lambda q, k, v: (
        torch.softmax(_scores(q, k), 0) @ v
    ),
    Text("the scores were not scaled by 1/sqrt(d_k)"): lambda q, k, v: (
        torch.softmax(q @ k.mT, -1) @ v
    ),
    Text("the scores were divided by d_k instead of sqrt(d_k)"): lambda q, k, v: (
        torch.softmax(q @ k.mT / q.shape[-1], -1) @ v
    ),
    Text("the scores were multiplied by sqrt(d_k) instead of divided"): lambda q, k, v: (
        torch.softmax(q @ k.mT * q.shape[-1] ** 0.5, -1) @ v
    ),
    Text("there were no softmax: the scores themselves weigh the values"): lambda q, k, v: (
        _scores(q, k) @ v
    ),
    Text(
        "the scores were divided by their sum, without the exponential of softmax"
    ): lambda q, k, v: _scores(q, k) / _scores(q, k).sum(-1, keepdim=True) @ v,
    Text("the exponentials were not divided by their sum"): lambda q, k, v: (
        torch.exp(_scores(q, k)) @ v
    ),
    Text("the weights were sigmoids of the scores"): lambda q, k, v: (
        torch.sigmoid(_scores(q, k)) @ v
    ),
    Text(
        "the softmax used powers of 2 instead of e; multiply the scores by log2(e)"
    ): lambda q, k, v: torch.softmax(_scores(q, k) * torch.log(torch.tensor(2.0)), -1) @ v,
    Text("the scores had the opposite sign"): lambda q, k, v: torch.softmax(-_scores(q, k), -1) @ v,
    Text("1 were added to the sum of exponentials"): lambda q, k, v: (
        torch.exp(_scores(q, k)) / (1 + torch.exp(_scores(q, k)).sum(-1, keepdim=True)) @ v
    ),
    Text("it were causal without being asked: query i sees the keys j <= i only"): lambda q, k, v: (
        _softmax(_scores(q, k), _triangle(q, k, 0), v)
    ),
    Text("the last key were left out"): lambda q, k, v: (
        torch.softmax(_scores(q, k)[..., :-1], -1) @ v[..., :-1, :]
    ),
    Text("the first key were left out"): lambda q, k, v: (
        torch.softmax(_scores(q, k)[..., 1:], -1) @ v[..., 1:, :]
    ),
    Text("query and key changed places"): lambda q, k, v: torch.softmax(_scores(k, q), -1) @ v,
    Text("the weights were transposed before they met the values"): lambda q, k, v: (
        torch.softmax(_scores(q, k), -1).mT @ v
    ),
    Text("the keys were averaged instead of the values"): lambda q, k, v: (
        torch.softmax(_scores(q, k), -1) @ k
    ),
    Text("the query were compared with the queries instead of the keys"): lambda q, k, v: (
        torch.softmax(_scores(q, q), -1) @ v
    ),
    Text(
        "queries and keys were normalised first (cosine instead of dot product)"
    ): lambda q, k, v: torch.softmax(_scores(_unit(q), _unit(k)), -1) @ v,
    Text("the weights were divided by sqrt(d_k) after the softmax"): lambda q, k, v: (
        torch.softmax(q @ k.mT, -1) @ v * q.shape[-1] ** -0.5
    ),
    Text("all weights were equal: a plain mean of the values"): lambda q, k, v: v.mean(
        -2, keepdim=True
    ).expand(*q.shape[:-1], v.shape[-1]),
}
