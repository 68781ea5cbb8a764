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
        en="the softmax ran over the queries (dim=-2) instead of the keys (dim=-1)",
        pt="a softmax percorresse as consultas (dim=-2), e não as chaves (dim=-1)",
    ): lambda q, k, v: torch.softmax(_scores(q, k), -2) @ v,
    Text(
        en="the softmax ran over the heads (dim=1) instead of the keys (dim=-1)",
        pt="a softmax percorresse as cabeças (dim=1), e não as chaves (dim=-1)",
    ): lambda q, k, v: torch.softmax(_scores(q, k), 1) @ v,
    Text(
        en="the softmax ran over the batch (dim=0) instead of the keys (dim=-1)",
        pt="a softmax percorresse o lote (dim=0), e não as chaves (dim=-1)",
    ): lambda q, k, v: torch.softmax(_scores(q, k), 0) @ v,
    Text(
        en="the scores were not scaled by 1/sqrt(d_k)",
        pt="os escores não fossem escalados por 1/sqrt(d_k)",
    ): lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v,
    Text(
        en="the scores were divided by d_k instead of sqrt(d_k)",
        pt="os escores fossem divididos por d_k, e não por sqrt(d_k)",
    ): lambda q, k, v: torch.softmax(q @ k.mT / q.shape[-1], -1) @ v,
    Text(
        en="the scores were multiplied by sqrt(d_k) instead of divided",
        pt="os escores fossem multiplicados por sqrt(d_k), e não divididos",
    ): lambda q, k, v: torch.softmax(q @ k.mT * q.shape[-1] ** 0.5, -1) @ v,
    Text(
        en="there were no softmax: the scores themselves weigh the values",
        pt="não houvesse softmax: os próprios escores pesam os valores",
    ): lambda q, k, v: _scores(q, k) @ v,
    Text(
        en="the scores were divided by their sum, without the exponential of softmax",
        pt="os escores fossem divididos por sua soma, sem a exponencial da softmax",
    ): lambda q, k, v: _scores(q, k) / _scores(q, k).sum(-1, keepdim=True) @ v,
    Text(
        en="the exponentials were not divided by their sum",
        pt="as exponenciais não fossem divididas por sua soma",
    ): lambda q, k, v: torch.exp(_scores(q, k)) @ v,
    Text(
        en="the weights were sigmoids of the scores",
        pt="os pesos fossem sigmoides dos escores",
    ): lambda q, k, v: torch.sigmoid(_scores(q, k)) @ v,
    Text(
        en="the softmax used powers of 2 instead of e; multiply the scores by log2(e)",
        pt="a softmax usasse potências de 2, e não de e; multiplique os escores por log2(e)",
    ): lambda q, k, v: torch.softmax(_scores(q, k) * torch.log(torch.tensor(2.0)), -1) @ v,
    Text(
        en="the scores had the opposite sign",
        pt="os escores tivessem o sinal oposto",
    ): lambda q, k, v: torch.softmax(-_scores(q, k), -1) @ v,
    Text(
        en="1 were added to the sum of exponentials",
        pt="se somasse 1 à soma de exponenciais",
    ): lambda q, k, v: (
        torch.exp(_scores(q, k)) / (1 + torch.exp(_scores(q, k)).sum(-1, keepdim=True)) @ v
    ),
    Text(
        en="it were causal without being asked: query i sees the keys j <= i only",
        pt="ela fosse causal sem que se pedisse: a consulta i só vê as chaves j <= i",
    ): lambda q, k, v: _softmax(_scores(q, k), _triangle(q, k, 0), v),
    Text(
        en="the last key were left out",
        pt="a última chave ficasse de fora",
    ): lambda q, k, v: torch.softmax(_scores(q, k)[..., :-1], -1) @ v[..., :-1, :],
    Text(
        en="the first key were left out",
        pt="a primeira chave ficasse de fora",
    ): lambda q, k, v: torch.softmax(_scores(q, k)[..., 1:], -1) @ v[..., 1:, :],
    Text(
        en="query and key changed places",
        pt="a consulta e a chave trocassem de lugar",
    ): lambda q, k, v: torch.softmax(_scores(k, q), -1) @ v,
    Text(
        en="the weights were transposed before they met the values",
        pt="os pesos fossem transpostos antes de encontrar os valores",
    ): lambda q, k, v: torch.softmax(_scores(q, k), -1).mT @ v,
    Text(
        en="the keys were averaged instead of the values",
        pt="a média fosse das chaves, e não dos valores",
    ): lambda q, k, v: torch.softmax(_scores(q, k), -1) @ k,
    Text(
        en="the query were compared with the queries instead of the keys",
        pt="a consulta fosse comparada com as consultas, e não com as chaves",
    ): lambda q, k, v: torch.softmax(_scores(q, q), -1) @ v,
    Text(
        en="queries and keys were normalised first (cosine instead of dot product)",
        pt="consultas e chaves fossem antes normalizadas (cosseno em vez de produto escalar)",
    ): lambda q, k, v: torch.softmax(_scores(_unit(q), _unit(k)), -1) @ v,
    Text(
        en="the weights were divided by sqrt(d_k) after the softmax",
        pt="os pesos fossem divididos por sqrt(d_k) depois da softmax",
    ): lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v * q.shape[-1] ** -0.5,
    Text(
        en="all weights were equal: a plain mean of the values",
        pt="todos os pesos fossem iguais: uma média simples dos valores",
    ): lambda q, k, v: v.mean(-2, keepdim=True).expand(*q.shape[:-1], v.shape[-1]),
}
