"""Under the roofline of an example machine: what waits for memory, and what for arithmetic."""

import torch

from attnref import cost
from docs.figures.drawing import (
    FIRST,
    INK,
    SECOND,
    axes,
    label,
    name_axes,
    new_figure,
    powers,
    ticks,
)

TEXT = {
    "pt": {
        "x": "intensidade: operações por byte movido",
        "y": "operações por segundo (a máquina: $10^{14}$, e $10^{12}$ bytes por segundo)",
        "memory": "limitado\npela memória",
        "compute": "limitado\npelo cálculo",
        "decode": "decodificar, lote {batch}",
        "train": "treinamento\ne prefill",
        "plain": "miolo, como\nna fórmula",
        "tiles": "miolo, em\nladrilhos",
    },
    "en": {
        "x": "intensity: operations per byte moved",
        "y": "operations per second (the machine: $10^{14}$, and $10^{12}$ bytes per second)",
        "memory": "limited by\nmemory",
        "compute": "limited by\narithmetic",
        "decode": "decoding, batch {batch}",
        "train": "training\nand prefill",
        "plain": "core, as in\nthe formula",
        "tiles": "core,\nin tiles",
    },
}

PEAK, BANDWIDTH = 1e14, 1e12  # round numbers of no existing machine
HALF = torch.float16
WIDTH, HEADS, D, HIDDEN = 4096, 32, 128, 16_384


def layer(n, m, batch):
    """The last n of m tokens, through attention and feed-forward: operations per byte."""
    sizes = cost.Sizes(n=n, m=m, d_k=D, d_v=D, batch=batch, num_heads=HEADS, dtype=HALF)
    core = cost.of("fused", sizes, pairs=cost.allowed_pairs(n, m, window=(None, m - n)))
    hidden = cost.feedforward(batch * n, WIDTH, HIDDEN, dtype=HALF)
    return (cost.multihead(sizes, WIDTH, core) + hidden).intensity


def peak_rate(intensity):
    return min(PEAK, BANDWIDTH * intensity)


def draw(text):
    figure = new_figure(370)
    plot = axes(figure, 48, 44, 356, 272, xscale="log", yscale="log", xlim=(0.5, 4096))
    ridge = PEAK / BANDWIDTH
    ends = [0.5, ridge, 4096]
    plot.plot(ends, [peak_rate(end) for end in ends], color=INK)
    plot.plot([ridge, ridge], [1e11, 7e11], color=INK, linewidth=1, dashes=(1, 2))
    label(plot, (ridge, 2.6e11), text["memory"], offset=(-6, 0), side="right")
    label(plot, (ridge, 2.6e11), text["compute"], offset=(6, 0))
    core = cost.Sizes(n=8192, m=8192, d_k=64, d_v=64, dtype=HALF)
    points = [
        *((layer(1, 4096, batch), "decode", batch, "o") for batch in (1, 8, 64)),
        (layer(4096, 4096, 1), "train", None, "o"),
        (cost.of("plain", core).intensity, "plain", None, "s"),
        (cost.of("blockwise", core, block=(128, 128)).intensity, "tiles", None, "s"),
    ]
    for intensity, key, batch, marker in points:
        colour = FIRST if marker == "o" else SECOND
        height = peak_rate(intensity)
        plot.plot([intensity], [height], marker, color=colour, clip_on=False)
        offset = {"decode": (9, -4), "plain": (9, -12), "tiles": (4, -24), "train": (16, -24)}[key]
        side = "center" if key == "train" else "left"
        name = text[key].format(batch=batch)
        label(plot, (intensity, height), name, colour, offset=offset, side=side)
    plot.set_ylim(1e11, 3e14)
    ticks(plot, x=[1, 10, 100, 1000])
    powers(plot, range(11, 15))
    plot.grid()
    name_axes(plot, text["x"], text["y"])
    return figure
