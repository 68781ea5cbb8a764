"""How spread the weights of random rows are, by scale factor and width of the head."""

import math

import torch

import attnref
from attnref import bounded_scores
from docs.figures.drawing import (
    FIRST,
    INK,
    SECOND,
    SOFT,
    THIRD,
    axes,
    label,
    name_axes,
    new_figure,
    ticks,
)

TEXT = {
    "pt": {
        "x": "largura da cabeça $d_k$",
        "y": "entropia $H$ de uma linha com 64 chaves, em média (nats)",
        "uniform": "todas iguais, $ln 64$",
        "none": "sem fator",
        "unit": "vetores unitários, $τ = 10$",
    },
    "en": {
        "x": "width of the head $d_k$",
        "y": "entropy $H$ of a row with 64 keys, on average (nats)",
        "uniform": "all alike, $ln 64$",
        "none": "no factor",
        "unit": "unit vectors, $τ = 10$",
    },
}

WIDTHS = [2**power for power in range(11)]
KEYS, QUERIES = 64, 2048


def entropies(factor, normalise=lambda query, key: (query, key)):
    generator = torch.Generator().manual_seed(0)
    for d_k in WIDTHS:
        query = torch.randn(QUERIES, d_k, generator=generator)
        key = torch.randn(KEYS, d_k, generator=generator)
        upstream = torch.zeros(QUERIES, KEYS)  # of gradients nothing is asked here
        yield attnref.score_statistics.measure(
            *normalise(query, key), scale=factor(d_k), upstream=upstream
        ).entropy.item()


def draw(text):
    unit = entropies(lambda d_k: 10.0, bounded_scores.qk_unit_norm)
    figure = new_figure(330)
    plot = axes(figure, 40, 44, 360, 236, xscale="log", xlim=(0.9, 1100), ylim=(0, 4.4))
    plot.axhline(math.log(KEYS), color=SOFT, linewidth=1)
    label(plot, (1, math.log(KEYS)), text["uniform"], SOFT, offset=(0, 10))
    for numbers, colour, marker, name, place in (
        (entropies(lambda d_k: 1 / d_k), THIRD, "^-", "$1/d_k$", (20, 3.93)),
        (entropies(lambda d_k: d_k**-0.5), SECOND, "s-", "$1/√d_k$", (300, 3.4)),
        (entropies(lambda d_k: 1.0), FIRST, "o-", text["none"], (80, 0.8)),
        (unit, INK, "D:", text["unit"], (20, 2.2)),
    ):
        plot.plot(WIDTHS, list(numbers), marker, color=colour, linewidth=1.5, clip_on=False)
        label(plot, place, name, colour)
    plot.grid(axis="y")
    ticks(plot, x=WIDTHS[::2], y=[0, 1, 2, 3, 4])
    name_axes(plot, text["x"], text["y"])
    return figure
