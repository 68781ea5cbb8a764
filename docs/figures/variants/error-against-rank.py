"""The error of Linformer and of the Nyström method against the rank, on both kinds of tokens."""

import torch

import attnref
from attnref import linformer_attention, mean_projection, nystrom_attention
from docs.figures.drawing import FIRST, SECOND, axes, label, name_axes, new_figure, ticks
from docs.figures.tokens import error, noise, waves

TEXT = {
    "pt": {
        "x": "posto $r$, de 512 chaves",
        "y": "erro relativo",
        "random": "aleatórios",
        "smooth": "suaves",
    },
    "en": {
        "x": "rank $r$, of 512 keys",
        "y": "relative error",
        "random": "random",
        "smooth": "smooth",
    },
}

N, D = 512, 64
RANKS = [2**power for power in range(2, 9)]


def linformer(rank, q, k, v):
    means = mean_projection(rank, N, dtype=torch.float64)
    return linformer_attention(q, k, v, key_projection=means, value_projection=means)


def nystrom(rank, q, k, v):
    return nystrom_attention(q, k, v, num_landmarks=rank)


def draw(text):
    generator = torch.Generator().manual_seed(0)
    figure = new_figure(320)
    plot = axes(figure, 54, 44, 226, 226, xscale="log", yscale="log")
    lines = {
        ("smooth", "Linformer"): (linformer, FIRST, "o", None),
        ("smooth", "Nyström"): (nystrom, SECOND, "s", None),
        ("random", "Linformer"): (linformer, FIRST, "o", (3, 2)),
        ("random", "Nyström"): (nystrom, SECOND, "s", (3, 2)),
    }
    inputs = {
        "smooth": [waves(N, D, generator) for _ in range(3)],
        "random": [noise(N, D, generator) for _ in range(3)],
    }
    for (kind, name), (method, colour, marker, dashes) in lines.items():
        tokens = inputs[kind]
        exact = attnref.scaled_dot_product_attention(*tokens)
        found = [error(method(rank, *tokens), exact) for rank in RANKS]
        look = {"dashes": dashes} if dashes else {}
        plot.plot(RANKS, found, marker=marker, color=colour, clip_on=False, **look)
        # Both lines of random tokens end at nearly the same place: their names are set apart.
        up = {"Linformer": 8, "Nyström": -8}[name] if kind == "random" else 8
        label(plot, (RANKS[-1], found[-1]), f"{name}, {text[kind]}", colour, offset=(9, up))
    plot.set_ylim(1e-4, 2)
    ticks(plot, x=RANKS[::2], y=[1e-4, 1e-3, 0.01, 0.1, 1])
    plot.grid(axis="y")
    name_axes(plot, text["x"], text["y"])
    return figure
