"""The scores of the judge's counterexample after two shifts, and what float32 can raise e to."""

import math

import torch

from docs.figures.drawing import FIRST, GRID, SECOND, SHADE, SMALL, axes, label, new_figure, ticks

TEXT = {
    "pt": {
        "mean": "menos a média",
        "max": "menos o maior",
        "over": "$e^s$ estoura",
        "weights": "pesos: {weights}",
        "three": "três escores",
        "axis": "escore depois do deslocamento",
    },
    "en": {
        "mean": "minus the mean",
        "max": "minus the largest",
        "over": "$e^s$ overflows",
        "weights": "weights: {weights}",
        "three": "three scores",
        "axis": "score after the shift",
    },
}


def draw(text):
    scores = torch.tensor([0.0, 0.0, 0.0, 1000.0])
    limit = math.log(torch.finfo(scores.dtype).max)
    figure = new_figure(266)
    plot = axes(figure, 24, 34, 372, 176, xlim=(-1100, 1100), ylim=(2.0, -0.1), yticks=[])
    plot.spines["left"].set_visible(False)
    plot.axvspan(limit, 1100, color=SHADE, alpha=0.18, linewidth=0)
    plot.axvline(limit, color=SECOND, linestyle="--", linewidth=1)
    label(plot, (limit, -0.1), text["over"], SECOND, offset=(6, 12))
    for row, (name, shift) in enumerate((("mean", scores.mean()), ("max", scores.max()))):
        shifted = scores - shift
        height = 0.55 + row
        weights = shifted.exp() / shifted.exp().sum()
        written = ", ".join(f"{weight:g}" for weight in weights.tolist())
        plot.axhline(height, color=GRID, linewidth=1)
        plot.plot(shifted, [height] * 4, "o", color=FIRST, clip_on=False)
        label(plot, (-1100, height), text[name], offset=(0, 31), bold=True)
        label(plot, (-1100, height), text["weights"].format(weights=written), offset=(0, -16))
        label(plot, (float(shifted[0]), height), text["three"], offset=(0, 13), side="center")
    ticks(plot, x=(-1000, -500, 0, 500, 1000))
    plot.set_xlabel(text["axis"], labelpad=6, fontsize=SMALL)
    return figure
