"""The variance of the scores against the width of the head, for three factors and in theory."""

import torch

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

TEXT = {
    "pt": {
        "x": "largura da cabeça $d_k$",
        "y": "variância de 20000 escores $c q·k$ (pontos; retas: a lei $c^2d_k$)",
        "none": "sem fator, $c = 1$",
    },
    "en": {
        "x": "width of the head $d_k$",
        "y": "variance of 20000 scores $c q·k$ (points; lines: the law $c^2d_k$)",
        "none": "no factor, $c = 1$",
    },
}

WIDTHS = [4**power for power in range(1, 6)]
PAIRS = 20_000


def measure(power):
    generator = torch.Generator().manual_seed(0)
    for d_k in WIDTHS:
        q = torch.randn(PAIRS, d_k, generator=generator)
        k = torch.randn(PAIRS, d_k, generator=generator)
        yield (d_k**power * (q * k).sum(-1)).var().item()


def draw(text):
    figure = new_figure(330)
    plot = axes(figure, 50, 44, 352, 236, xscale="log", yscale="log")
    for power, colour, marker, name, place in (
        (0, FIRST, "o", text["none"], (64, 220)),
        (-0.5, SECOND, "s", "$c = 1/√d_k$", (64, 2.2)),
        (-1, THIRD, "^", "$c = 1/d_k$", (64, 0.055)),
    ):
        law = [d_k ** (2 * power + 1) for d_k in WIDTHS]
        plot.plot(WIDTHS, law, color=SOFT, linewidth=1)
        plot.plot(WIDTHS, list(measure(power)), marker, color=colour, clip_on=False)
        label(plot, place, name, colour, side="center")
    plot.set_ylim(1e-3 / 2, 2e3)
    ticks(plot, x=WIDTHS, y=[0.001, 0.01, 0.1, 1, 10, 100, 1000])
    plot.grid(axis="y")
    name_axes(plot, text["x"], text["y"])
    return figure
