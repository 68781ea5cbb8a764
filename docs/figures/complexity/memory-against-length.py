"""Bytes against the length of the text: what is quadratic, and what only looks large."""

import torch

from attnref import cost
from docs.figures.drawing import (
    FIRST,
    INK,
    SECOND,
    THIRD,
    axes,
    label,
    name_axes,
    new_figure,
    ticks,
)

TEXT = {
    "pt": {
        "x": "número de tokens $n$",
        "y": "memória, 32 cabeças de largura 128 em float16",
        "scores": "escores\nde uma camada",
        "cache": "cache KV\nde 32 camadas",
        "inputs": "$Q$, $K$, $V$",
        "tiles": "atenção em\nladrilhos",
    },
    "en": {
        "x": "number of tokens $n$",
        "y": "memory, 32 heads of width 128 in float16",
        "scores": "scores\nof one layer",
        "cache": "KV cache\nof 32 layers",
        "inputs": "$Q$, $K$, $V$",
        "tiles": "attention in tiles",
    },
}

LAYERS, HEADS, D = 32, 32, 128
LENGTHS = [2**power for power in range(9, 21)]


def stored_bytes(n):
    """Bytes of scores, cache, inputs, and of what a tiled program allocates."""
    sizes = cost.Sizes(n=n, m=n, d_k=D, d_v=D, num_heads=HEADS, dtype=torch.float16)
    inputs = 3 * HEADS * n * D * sizes.dtype.itemsize
    tiles = cost.of("blockwise", sizes, block=(128, 128)).peak_bytes
    return sizes.score_bytes, LAYERS * sizes.cache_bytes, inputs, tiles


def draw(text):
    figure = new_figure(360)
    plot = axes(figure, 58, 44, 226, 262, xscale="log", yscale="log", xlim=(512, 2**20))
    lines = zip(*map(stored_bytes, LENGTHS), strict=True)
    looks = {
        "scores": (FIRST, (None, None), 0),
        "cache": (SECOND, (6, 2), 0),
        "inputs": (THIRD, (1.5, 1.5), 5),
        "tiles": (INK, (6, 2, 1.5, 2), -7),
    }
    for numbers, (key, (colour, dashes, up)) in zip(lines, looks.items(), strict=True):
        plot.plot(LENGTHS, numbers, color=colour, dashes=dashes)
        label(plot, (LENGTHS[-1], numbers[-1]), text[key], colour, offset=(7, up))
    plot.set_ylim(2**21, 2**47)
    plot.grid(axis="y")
    sizes = {2**20: "MiB", 2**30: "GiB", 2**40: "TiB"}
    marks = {unit * count: f"{count} {name}" for unit, name in sizes.items() for count in (1, 32)}
    ticks(plot, [512, 8192, 131072], {size: name for size, name in marks.items() if size > 2**21})
    name_axes(plot, text["x"], text["y"])
    return figure
