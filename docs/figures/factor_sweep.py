"""Random scores under one factor after another: what two figures draw from."""

import torch

import attnref
from attnref.score_statistics import ScoreStatistics

D_K = KEYS = 64
QUERIES = 2048


def sweep(highest: int) -> tuple[list[float], list[ScoreStatistics]]:
    """The factors, four to a doubling, from 2⁻⁸ to 2^highest; and what each does to the rows."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(QUERIES, 1, D_K, generator=generator)
    key = torch.randn(KEYS, D_K, generator=generator)
    upstream = torch.randn(QUERIES, 1, KEYS, generator=generator)
    factors = torch.logspace(-8, highest, 4 * (highest + 8) + 1, base=2.0).tolist()
    return factors, [
        attnref.score_statistics.measure(query, key, scale=factor, upstream=upstream)
        for factor in factors
    ]


def marks(none: str) -> dict[float, str]:
    """The factors that have a name, for the ticks."""
    return {1 / D_K: "$1/d_k$", D_K**-0.5: "$1/√d_k$", 1: none}
