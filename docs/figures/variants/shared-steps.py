"""The error of ordinary rows against the number of tokens that share a step with large ones."""

import torch

import attnref
from attnref import quantized_attention
from docs.figures.drawing import FIRST, SECOND, THIRD, axes, label, name_axes, new_figure, ticks
from docs.figures.tokens import error, noise

TEXT = {
    "pt": {"x": "tokens que dividem um passo", "y": "erro relativo da saída"},
    "en": {"x": "tokens that share a step", "y": "relative error of the output"},
}

N, D = 1024, 64
SIZES = [1, 4, 16, 64, 256, 1024]
FORMATS = (
    ("int8", torch.int8, SECOND, "s", "-"),
    ("e4m3", torch.float8_e4m3fn, FIRST, "o", "-"),
    ("e5m2", torch.float8_e5m2, THIRD, "^", "--"),
)


def draw(text):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (noise(N, D, generator) for _ in range(3))
    rare = torch.rand(N, 1, generator=generator) < 0.02
    large = torch.where(rare, 30 * q, q)
    exact = attnref.scaled_dot_product_attention(q, k, v) * ~rare
    figure = new_figure(300)
    plot = axes(figure, 54, 44, 280, 206)
    for name, dtype, colour, marker, line in FORMATS:
        found = [
            error(quantized_attention(large, k, v, dtype=dtype, block_size=size) * ~rare, exact)
            for size in SIZES
        ]
        plot.plot(SIZES, found, line, marker=marker, color=colour, clip_on=False)
        label(plot, (SIZES[-1], found[-1]), name, colour, offset=(9, 0))
    plot.set_xscale("log", base=2)
    plot.set_xlim(1, 1024)
    plot.set_ylim(0, 0.25)
    ticks(plot, x=SIZES, y=[0, 0.05, 0.1, 0.15, 0.2, 0.25])
    plot.grid(axis="y")
    name_axes(plot, text["x"], text["y"])
    return figure
