"""Performer's error against the number of features, for tokens of three sizes."""

import torch

import attnref
from attnref import performer_attention, random_projection
from docs.figures.drawing import (
    FIRST,
    SECOND,
    SOFT,
    THIRD,
    axes,
    label,
    name_axes,
    new_figure,
    ticks,
)
from docs.figures.tokens import error, noise

TEXT = {
    "pt": {
        "x": "número de características $r$",
        "y": "erro relativo, média de 8 sorteios (tracejado: a média dos valores)",
        "size": "desvio",
    },
    "en": {
        "x": "number of features $r$",
        "y": "relative error, mean of 8 draws (dashed: the mean of the values)",
        "size": "deviation",
    },
}

N, D, DRAWS = 64, 64, 8
COUNTS = [16 * 4**power for power in range(5)]


def errors(size):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (size * noise(N, D, generator) for _ in range(3))
    exact = attnref.scaled_dot_product_attention(q, k, v)
    found = []
    for r in COUNTS:
        drawn = [
            performer_attention(
                q,
                k,
                v,
                projection=random_projection(r, D, generator=generator, dtype=torch.float64),
            )
            for _ in range(DRAWS)
        ]
        found.append(sum(error(output, exact) for output in drawn) / DRAWS)
    return found, error(v.mean(0, keepdim=True), exact)


def draw(text):
    figure = new_figure(320)
    plot = axes(figure, 50, 44, 262, 226, xscale="log", yscale="log")
    for size, colour, marker in ((1.0, FIRST, "o"), (0.5, SECOND, "s"), (0.25, THIRD, "^")):
        found, mean = errors(size)
        plot.plot(COUNTS, found, marker=marker, color=colour, clip_on=False)
        plot.plot(COUNTS, [mean] * len(COUNTS), color=colour, linewidth=1, dashes=(6, 2))
        name = f"{text['size']} {size:g}"
        label(plot, (COUNTS[-1], found[-1]), name, colour, offset=(9, 0))
    first, last = COUNTS[0], COUNTS[-1]
    law = [0.12 * (first / r) ** 0.5 for r in (first, last)]
    plot.plot([first, last], law, color=SOFT, linewidth=1)
    label(plot, (last, law[1]), "$∝ 1/√r$", SOFT, offset=(9, 0))
    plot.set_ylim(0.005, 10)
    ticks(plot, x=COUNTS, y=[0.01, 0.1, 1, 10])
    plot.grid(axis="y")
    name_axes(plot, text["x"], text["y"])
    return figure
