"""One score grows beside two fixed ones: its weight by the softmax, and by dividing by the sum."""

import torch

from attnref import softmax
from docs.figures.drawing import FIRST, SECOND, SHADE, axes, label, name_axes, new_figure, ticks

TEXT = {
    "pt": {
        "x": "escore $s$, ao lado de dois escores fixos, 1 e 2",
        "y": "peso do escore $s$",
        "softmax": "softmax",
        "sum": "dividir pela soma",
        "weights": "pesos possíveis",
        "zero": "soma zero",
    },
    "en": {
        "x": "score $s$, beside two fixed scores, 1 and 2",
        "y": "weight of the score $s$",
        "softmax": "softmax",
        "sum": "dividing by the sum",
        "weights": "possible weights",
        "zero": "sum of zero",
    },
}

OTHERS = (1.0, 2.0)
LOW, HIGH = -2, 3


def draw(text):
    pole = -sum(OTHERS)
    figure = new_figure(350)
    plot = axes(figure, 40, 44, 364, 256, xlim=(-8, 8), ylim=(LOW, HIGH))
    plot.axhspan(0, 1, color=SHADE, alpha=0.18, linewidth=0)
    plot.axvline(pole, color=SECOND, linewidth=1, dashes=(1, 2))
    score = torch.linspace(-8, 8, 321)
    for part in (score[score < pole], score[score > pole]):
        scores = torch.stack([part, *(torch.full_like(part, other) for other in OTHERS)])
        by_sum = part / scores.sum(0)
        seen = (by_sum > LOW - 2) & (by_sum < HIGH + 2)
        plot.plot(part[seen], by_sum[seen], color=SECOND, dashes=(6, 2))
    scores = torch.stack([score, *(torch.full_like(score, other) for other in OTHERS)])
    plot.plot(score, softmax.stable(scores, dim=0)[0], color=FIRST)
    label(plot, (4, 1.2), text["softmax"], FIRST)
    label(plot, (-0.9, -1.2), text["sum"], SECOND)
    label(plot, (-7.8, 0.5), text["weights"])
    label(plot, (pole, 2.75), text["zero"], SECOND, offset=(5, 0))
    ticks(plot, x=[-8, -6, -4, -2, 0, 2, 4, 6, 8], y=[-2, -1, 0, 1, 2, 3])
    name_axes(plot, text["x"], text["y"])
    return figure
