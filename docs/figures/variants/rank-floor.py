"""How close a table of low rank can come to the weights of attention, at best."""

import torch

from attnref import attention_weights
from docs.figures.drawing import FIRST, SECOND, THIRD, axes, label, name_axes, new_figure

TEXT = {
    "pt": {
        "rank": "posto, com 512 chaves",
        "error": "menor erro relativo possível dos pesos",
        "smooth": "suaves",
        "flat": "planos",
        "peaked": "concentrados",
    },
    "en": {
        "rank": "rank, with 512 keys",
        "error": "least possible relative error of the weights",
        "smooth": "smooth",
        "flat": "flat",
        "peaked": "peaked",
    },
}

N, WIDTH = 512, 64
RANKS = (1, 4, 16, 64, 256)
LOOKS = {  # colour, dashes, and where its name is
    "peaked": (SECOND, "-", (20, 0.87)),
    "flat": (FIRST, "--", (1.2, 0.11)),
    "smooth": (THIRD, "-.", (7, 0.4)),
}


def tokens(generator):
    def noise():
        return torch.randn(N, WIDTH, generator=generator, dtype=torch.float64)

    def waves():
        place = torch.arange(N)[:, None] / N
        phase, speed = torch.rand(2, WIDTH, generator=generator, dtype=torch.float64)
        return 2 * torch.sin(2 * torch.pi * ((1 + 2 * speed) * place + phase))

    key = 1.5 * noise()
    order = torch.randperm(N, generator=generator)
    return {
        "peaked": (key[order] + 0.5 * noise(), key),
        "flat": (noise() / 4, noise() / 4),
        "smooth": (waves(), waves()),
    }


def draw(text):
    figure = new_figure(250)
    plot = axes(figure, 44, 34, 356, 164, xlim=(1, N), ylim=(0, 1.03))
    plot.set_xscale("log", base=2)
    plot.set_xticks(RANKS, [str(rank) for rank in RANKS])
    for name, (query, key) in tokens(torch.Generator().manual_seed(0)).items():
        squares = torch.linalg.svdvals(attention_weights(query, key)).square()
        left = squares.flip(0).cumsum(0).flip(0) / squares.sum()  # beyond each rank
        colour, dashes, place = LOOKS[name]
        shown = torch.tensor(sorted({round(2 ** (k / 16)) for k in range(9 * 16)}))
        plot.plot(shown, left[shown].sqrt(), dashes, color=colour)
        label(plot, place, text[name], colour)
    plot.grid(axis="y")
    name_axes(plot, text["rank"], text["error"])
    return figure
