"""Quantised attention's error against the size of one large channel of the keys."""

import torch

import attnref
from attnref import quantized_attention
from docs.figures.drawing import FIRST, SECOND, axes, label, name_axes, new_figure, ticks
from docs.figures.tokens import error, noise

TEXT = {
    "pt": {
        "x": "tamanho do canal comum a todas as chaves",
        "y": "erro relativo da saída",
        "plain": "como vêm",
        "smooth": "sem a média",
    },
    "en": {
        "x": "size of the channel common to all keys",
        "y": "relative error of the output",
        "plain": "as they come",
        "smooth": "mean subtracted",
    },
}

N, D = 256, 64
SIZES = [0, 5, 10, 20, 30, 40, 50]


def draw(text):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (noise(N, D, generator) for _ in range(3))
    figure = new_figure(300)
    plot = axes(figure, 54, 44, 250, 206)
    for smooth, key, colour, marker in (
        (False, "plain", SECOND, "s"),
        (True, "smooth", FIRST, "o"),
    ):
        found = []
        for size in SIZES:
            key_tokens = k.clone()
            key_tokens[:, 3] += size
            exact = attnref.scaled_dot_product_attention(q, key_tokens, v)
            found.append(error(quantized_attention(q, key_tokens, v, smooth=smooth), exact))
        plot.plot(SIZES, found, marker=marker, color=colour, clip_on=False)
        label(plot, (SIZES[-1], found[-1]), text[key], colour, offset=(9, 0))
    plot.set_ylim(0, 0.16)
    plot.set_xlim(0, 50)
    ticks(plot, x=[0, 10, 20, 30, 40, 50], y=[0, 0.05, 0.1, 0.15])
    plot.grid(axis="y")
    name_axes(plot, text["x"], text["y"])
    return figure
