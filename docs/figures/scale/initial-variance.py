"""The variance of the first scores against the width of the model, by initialiser."""

import torch
from torch import nn

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
        "x": "largura do modelo $d_{model}$, com $d_k = 64$",
        "y": "variância dos escores (pontos; linhas: a lei)",
        "head": "Xavier, por cabeça",
        "normal": "normal, desvio 0.02",
    },
    "en": {
        "x": "width of the model $d_{model}$, with $d_k = 64$",
        "y": "variance of the scores (points; lines: the law)",
        "head": "Xavier, by head",
        "normal": "normal, deviation 0.02",
    },
}

WIDTHS = [64 * 2**power for power in range(7)]
WORDS, D_K = 256, 64

# For each initialiser: how it fills the (d_k, d_model) matrix of one head, and its variance.
# Xavier of a square matrix has the bound √(3/d_model), which is that of Kaiming with a = 1.
KAIMING = nn.init.kaiming_uniform_
CASES = {
    "Kaiming": (lambda w, g: KAIMING(w, generator=g), lambda d: 2 / d),
    "head": (lambda w, g: nn.init.xavier_uniform_(w, generator=g), lambda d: 2 / (d + D_K)),
    "Xavier": (lambda w, g: KAIMING(w, a=1, generator=g), lambda d: 1 / d),
    "nn.Linear": (lambda w, g: KAIMING(w, a=5**0.5, generator=g), lambda d: 1 / (3 * d)),
    "normal": (lambda w, g: nn.init.normal_(w, std=0.02, generator=g), lambda d: 0.02**2),
}
LOOKS = [
    (INK, "o", (128, 7.2), "center"),
    (SECOND, "s", (720, 1.85), "center"),
    (FIRST, "D", (128, 0.62), "center"),
    (SECOND, "v", (128, 0.2), "center"),
    (THIRD, "^", (640, 0.017), "left"),
]


def measure(initialise):
    generator = torch.Generator().manual_seed(0)
    for width in WIDTHS:
        x = torch.randn(WORDS, width, generator=generator)
        x = nn.functional.layer_norm(x, (width,))
        q, k = (x @ initialise(torch.empty(D_K, width), generator).mT for _ in range(2))
        yield (q @ k.mT / D_K**0.5).var().item()


def draw(text):
    figure = new_figure(350)
    plot = axes(figure, 50, 44, 352, 254, xscale="log", yscale="log", ylim=(4e-4, 12))
    for (name, (initialise, law)), look in zip(CASES.items(), LOOKS, strict=True):
        colour, marker, place, side = look
        expected = [(width * law(width)) ** 2 for width in WIDTHS]
        plot.plot(WIDTHS, expected, color=SOFT, linewidth=1)
        plot.plot(WIDTHS, list(measure(initialise)), marker, color=colour, clip_on=False)
        label(plot, place, text.get(name, name), colour, side=side)
    ticks(plot, x=WIDTHS, y=[0.001, 0.01, 0.1, 1, 4])
    plot.grid(axis="y")
    name_axes(plot, text["x"], text["y"])
    return figure
