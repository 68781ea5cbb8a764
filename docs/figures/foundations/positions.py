"""What a score knows of two positions: sinusoids added to the words, and rotations."""

import torch

from attnref import positions
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
        "x": "distância $s − t$",
        "table": "tabela senoidal: $PE_t·PE_s$, sobre $d/2$",
        "added": "somada a uma palavra: $(x + PE_t)·(x + PE_s)$, sobre $d$",
        "turned": "a palavra girada: $R_t x·R_s x$, sobre $d$",
        "from": "consulta em $t = {place}$",
    },
    "en": {
        "x": "distance $s − t$",
        "table": "sinusoidal table: $PE_t·PE_s$, over $d/2$",
        "added": "added to a word: $(x + PE_t)·(x + PE_s)$, over $d$",
        "turned": "the word turned: $R_t x·R_s x$, over $d$",
        "from": "query at $t = {place}$",
    },
}

D, REACH = 64, 128
PLACES = (0, 20, 500)
LOOKS = ((FIRST, "-", 2), (SECOND, (0, (5, 2)), 2), (THIRD, (0, (1, 1.5)), 3))


def draw(text):
    generator = torch.Generator().manual_seed(0)
    word = torch.randn(D, generator=generator, dtype=torch.float64)
    word = word / word.square().mean().sqrt()  # of length √d
    distance = torch.arange(REACH)
    figure = new_figure(560)
    plots = [
        axes(figure, 44, top, 360, 120, xlim=(0, REACH), ylim=limits)
        for top, limits in ((36, (-0.1, 1.4)), (206, (0.95, 1.7)), (376, (-0.1, 1.4)))
    ]
    for place, (colour, dashes, width) in zip(PLACES, LOOKS, strict=True):
        table = positions.sinusoidal(REACH, D, offset=place, dtype=torch.float64)  # (REACH, D)
        alone = table @ table[0] / (D / 2)
        added = (word + table) @ (word + table[0]) / D
        turns = positions.rotary(word.expand(REACH, D), offset=place)
        turned = turns @ turns[0] / D
        for plot, numbers in zip(plots, (alone, added, turned), strict=True):
            plot.plot(distance, numbers, color=colour, linestyle=dashes, linewidth=width)
    marks = {"table": [0, 0.5, 1], "added": [1, 1.25, 1.5], "turned": [0, 0.5, 1]}
    for plot, (name, numbers) in zip(plots, marks.items(), strict=True):
        ticks(plot, x=range(0, REACH + 1, 16), y=numbers)
        plot.axhline(min(numbers), color=SOFT, linewidth=1)
        name_axes(plot, y=text[name])
    name_axes(plots[-1], text["x"])
    for line, (place, (colour, dashes, width)) in enumerate(zip(PLACES, LOOKS, strict=True)):
        height = 1.3 - 0.19 * line
        plots[0].plot([70, 82], [height] * 2, color=colour, linestyle=dashes, linewidth=width)
        label(plots[0], (85, height), text["from"].format(place=place), colour)
    return figure
