"""What a score knows of two positions: sinusoids added to the words, and rotations."""

import torch
from drawing import FIRST, SECOND, SOFT, THIRD, axes, label, name_axes, new, ticks

from attnref import positions

TEXT = {
    "pt": {
        "x": "distância $j − i$",
        "table": "tabela senoidal: $PE_i·PE_j$, sobre $d/2$",
        "added": "somada às palavras: $(q + PE_i)·(k + PE_j)$, sobre $d$",
        "turned": "palavras giradas: $R_i q·R_j k$, sobre $d$",
        "from": "consulta em $i = {place}$",
    },
    "en": {
        "x": "distance $j − i$",
        "table": "sinusoidal table: $PE_i·PE_j$, over $d/2$",
        "added": "added to the words: $(q + PE_i)·(k + PE_j)$, over $d$",
        "turned": "words turned: $R_i q·R_j k$, over $d$",
        "from": "query at $i = {place}$",
    },
}

D, REACH = 64, 128
PLACES = (0, 20, 500)
LOOKS = ((FIRST, "-", 2), (SECOND, (0, (5, 2)), 2), (THIRD, (0, (1, 1.5)), 3))


def draw(text):
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, D, generator=generator, dtype=torch.float64)
    distance = torch.arange(REACH)
    figure = new(560)
    plots = [
        axes(figure, 44, top, 360, 120, xlim=(0, REACH), ylim=limits)
        for top, limits in ((36, (-0.1, 1.4)), (206, (-0.3, 1)), (376, (-0.3, 1)))
    ]
    for place, (colour, dashes, width) in zip(PLACES, LOOKS, strict=True):
        table = positions.sinusoidal(REACH, D, offset=place, dtype=torch.float64)  # (REACH, D)
        alone = table @ table[0] / (D / 2)
        added = (key + table) @ (query + table[0]) / D
        keys = positions.rotary(key.expand(REACH, D), offset=place)
        turned = keys @ positions.rotary(query[None], offset=place)[0] / D
        for plot, numbers in zip(plots, (alone, added, turned), strict=True):
            plot.plot(distance, numbers, color=colour, linestyle=dashes, linewidth=width)
    ticks(plots[0], x=range(0, REACH + 1, 16), y=[0, 0.5, 1])
    for plot, name in zip(plots, ("table", "added", "turned"), strict=True):
        plot.axhline(0, color=SOFT, linewidth=1)
        name_axes(plot, y=text[name])
    for plot in plots[1:]:
        ticks(plot, x=range(0, REACH + 1, 16), y=[0, 0.5, 1])
    name_axes(plots[-1], text["x"])
    for line, (place, (colour, dashes, width)) in enumerate(zip(PLACES, LOOKS, strict=True)):
        height = 1.3 - 0.19 * line
        plots[0].plot([70, 82], [height] * 2, color=colour, linestyle=dashes, linewidth=width)
        label(plots[0], (85, height), text["from"].format(place=place), colour)
    return figure
