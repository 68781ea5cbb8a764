"""The weight that is kept by chosen blocks, against the number of keys that are read."""

import torch

import attnref
from attnref import masks, moba_choice
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
        "x": "chaves lidas por consulta, de 512",
        "y": "peso mantido, média das consultas",
        "best": "as melhores chaves",
        "alike": "blocos, parecidas",
        "unlike": "blocos, diferentes",
        "last": "as últimas chaves",
    },
    "en": {
        "x": "keys read per query, of 512",
        "y": "weight kept, mean over queries",
        "best": "the best keys",
        "alike": "blocks, like keys",
        "unlike": "blocks, unlike keys",
        "last": "the last keys",
    },
}

N, D, BLOCK = 512, 32, 16
COUNTS = [1, 2, 4, 8, 16, 32]


def tokens(alike):
    """Keys that are like their neighbours, more or less; queries that seek one of those so far."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(N, D, generator=generator, dtype=torch.float64)
    key = [steps[0]]
    for step in steps[1:]:
        key.append(alike * key[-1] + (1 - alike**2) ** 0.5 * step)
    key = torch.stack(key)
    sought = (torch.rand(N, generator=generator) * torch.arange(1, N + 1)).long()
    noise = torch.randn(N, D, generator=generator, dtype=torch.float64)
    return 2 * key[sought] + noise, key


def kept_weight(alike, choose):
    """The mean weight of the keys that ``choose`` names, over the last quarter of the queries."""
    query, key = tokens(alike)
    weights = attnref.attention_weights(query, key, is_causal=True)
    rows = slice(3 * N // 4, None)
    found = []
    for count in COUNTS:
        mask = choose(query, key, weights, count).dense()
        found.append(float((weights * mask).sum(-1)[rows].mean()))
    return found


def blocks(query, key, weights, count):
    return moba_choice(query, key, block_size=BLOCK, num_blocks=count, is_causal=True)


def select_last(query, key, weights, count):
    return masks.sliding_window(N, window=BLOCK * count, is_causal=True)


def select_best(query, key, weights, count):
    places = weights.topk(BLOCK * count).indices
    allowed = torch.zeros_like(weights, dtype=torch.bool).scatter(-1, places, True)
    return attnref.Mask((N, N), lambda i, j: allowed[i, j])


def draw(text):
    figure = new_figure(300)
    plot = axes(figure, 48, 44, 356, 206, xscale="log")
    curves = {
        "best": (kept_weight(0.0, select_best), FIRST, "o", 0, (0, 24), "left"),
        "alike": (kept_weight(0.9, blocks), SECOND, "s", 1, (9, -12), "left"),
        "unlike": (kept_weight(0.0, blocks), THIRD, "^", 1, (10, -10), "left"),
        "last": (kept_weight(0.0, select_last), INK, "v", 3, (9, -10), "left"),
    }
    read = [BLOCK * count for count in COUNTS]
    for name, (found, colour, marker, place, offset, side) in curves.items():
        plot.plot(read, found, marker=marker, color=colour, clip_on=False)
        label(plot, (read[place], found[place]), text[name], colour, offset=offset, side=side)
    plot.set_ylim(0, 1.15)
    ticks(plot, x=read, y=[0, 0.25, 0.5, 0.75, 1])
    plot.grid(axis="y")
    name_axes(plot, text["x"], text["y"])
    return figure
