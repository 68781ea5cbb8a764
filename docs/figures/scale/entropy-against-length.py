"""What becomes of attention in long rows, with a constant factor and with two that grow."""

import math

import torch

from attnref import softmax
from docs.figures.drawing import FIRST, SECOND, THIRD, axes, label, name_axes, new_figure, ticks

TEXT = {
    "pt": {
        "x": "número de chaves $n$",
        "entropy": "escores aleatórios: entropia sobre $ln n$, em média",
        "leader": "uma chave 8 à frente de todas as outras: o seu peso",
        "constant": "fator constante",
        "root": "$∝ √(ln n)$",
        "log": "$∝ ln n$",
    },
    "en": {
        "x": "number of keys $n$",
        "entropy": "random scores: entropy over $ln n$, on average",
        "leader": "one key 8 ahead of all others: its weight",
        "constant": "constant factor",
        "root": "$∝ √(ln n)$",
        "log": "$∝ ln n$",
    },
}

START, LEAD = 64, 8  # all three factors are 1 at the length START
LENGTHS = [2**power for power in range(6, 17)]
FACTORS = {
    "constant": lambda n: 1.0,
    "root": lambda n: math.sqrt(math.log(n) / math.log(START)),
    "log": lambda n: math.log(n) / math.log(START),
}
LOOKS = {"constant": (FIRST, "o-"), "root": (SECOND, "s--"), "log": (THIRD, "^:")}


def relative_entropy(n, factor):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2**18 // n, n, generator=generator)
    weights = softmax.stable(factor * scores)
    return softmax.entropy(weights).mean().item() / math.log(n)


def leaders_weight(n, factor):
    scores = torch.zeros(n, dtype=torch.float64)
    scores[0] = LEAD
    return softmax.stable(factor * scores)[0].item()


def draw(text):
    figure = new_figure(440)
    above = axes(figure, 44, 40, 360, 140, xscale="log", ylim=(0, 1.14))
    below = axes(figure, 44, 236, 360, 140, xscale="log", ylim=(0, 1.14), sharex=above)
    for plot, measure, places in (
        (above, relative_entropy, {"constant": 1.05, "root": 0.815, "log": 0.58}),
        (below, leaders_weight, {"constant": 0.35, "root": 0.78, "log": 1.08}),
    ):
        for name, (colour, look) in LOOKS.items():
            numbers = [measure(n, FACTORS[name](n)) for n in LENGTHS]
            plot.plot(LENGTHS, numbers, look, color=colour, linewidth=1.5, clip_on=False)
            label(plot, (60000, places[name]), text[name], colour, side="right")
        plot.grid(axis="y")
        ticks(plot, x=LENGTHS[::2], y=[0, 0.25, 0.5, 0.75, 1])
    name_axes(above, y=text["entropy"])
    name_axes(below, text["x"], text["leader"])
    return figure
