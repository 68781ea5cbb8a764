"""The mass that top-k attention drops, against the number of keys that it keeps."""

import torch

import attnref
from docs.figures.drawing import FIRST, SECOND, THIRD, axes, label, name_axes, new_figure, ticks
from docs.figures.tokens import noise, waves

TEXT = {
    "pt": {
        "x": "chaves mantidas $k$, de 512",
        "y": "massa deixada de fora, média das consultas",
        "random": "aleatórios",
        "smooth": "suaves",
        "matched": "com par",
    },
    "en": {
        "x": "keys kept $k$, of 512",
        "y": "mass left out, mean over queries",
        "random": "random",
        "smooth": "smooth",
        "matched": "matched",
    },
}

N, D = 512, 64
COUNTS = [2**power for power in range(10)]


def draw(text):
    generator = torch.Generator().manual_seed(0)
    smooth = [waves(N, D, generator) for _ in range(3)]
    random = [noise(N, D, generator) for _ in range(3)]
    key = noise(N, D, generator)
    pairs = {
        "smooth": smooth[:2],
        "random": random[:2],
        "matched": (3 * key.roll(1, 0) + noise(N, D, generator), key),
    }
    figure = new_figure(300)
    plot = axes(figure, 48, 44, 356, 206, xscale="log")
    looks = {
        "random": (FIRST, "o", (9, 14), "left"),
        "smooth": (SECOND, "s", (-10, -12), "right"),
        "matched": (THIRD, "^", (9, 12), "left"),
    }
    for name, (query, keys) in pairs.items():
        colour, marker, offset, side = looks[name]
        best = attnref.attention_weights(query, keys).sort(-1, descending=True).values
        dropped = [1 - float(best[:, :count].sum(-1).mean()) for count in COUNTS]
        plot.plot(COUNTS, dropped, marker=marker, color=colour, clip_on=False)
        label(plot, (COUNTS[5], dropped[5]), text[name], colour, offset=offset, side=side)
    plot.set_ylim(0, 1)
    ticks(plot, x=[*COUNTS[::2], 512], y=[0, 0.25, 0.5, 0.75, 1])
    plot.grid(axis="y")
    name_axes(plot, text["x"], text["y"])
    return figure
