"""A number for each distance lies on the diagonals of the table; the buckets of T5."""

import torch

from attnref.positions import distances, relative_buckets
from docs.figures.drawing import (
    FIRST,
    SECOND,
    SHADE,
    SMALL,
    arrow,
    axes,
    box,
    canvas,
    label,
    name_axes,
    new_figure,
    ticks,
)
from docs.figures.matrices import Fill, grid

TEXT = {
    "pt": {
        "vector": "o viés de uma cabeça: um número por distância $j − i$",
        "table": "a tabela que ele representa: um por par",
        "queries": "consultas $i$",
        "keys": "chaves $j$",
        "bucket": "faixa",
        "behind": "distância para trás",
        "decoder": "decodificador: 32 para o passado",
        "encoder": "codificador: 16 para cada lado",
    },
    "en": {
        "vector": "the bias of a head: one number per distance $j − i$",
        "table": "the table that it stands for: one per pair",
        "queries": "queries $i$",
        "keys": "keys $j$",
        "bucket": "bucket",
        "behind": "distance backwards",
        "decoder": "decoder: 32 for the past",
        "encoder": "encoder: 16 for each side",
    },
}

N, M, CELL, CHOSEN = 5, 7, 24, -2


def draw(text):
    figure = new_figure(544)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    t = distances(N, M, alignment="top-left")
    strength = [0.55 - 0.08 * abs(int(distance)) for distance in t]

    left, top = 20, 34
    plane.text(left, top - 18, text["vector"], **small)
    fills = [
        Fill(columns=slice(place, place + 1), alpha=max(0.06, alpha))
        for place, alpha in enumerate(strength)
    ]
    grid(plane, left, top, (1, len(t)), CELL, fills)
    for place, distance in enumerate(t.tolist()):
        number = f"{distance}".replace("-", "−")
        plane.text(left + CELL * (place + 0.5), top + CELL / 2, number, ha="center", **small)
    chosen = t.tolist().index(CHOSEN)
    box(plane, left + CELL * chosen, top, CELL, CELL, edge=SECOND)

    below, across = top + 84, left + 96
    plane.text(across, below - 18, text["table"], **small)
    cells = [
        Fill(slice(i, i + 1), slice(j, j + 1), max(0.06, strength[j - i + N - 1]), SHADE)
        for i in range(N)
        for j in range(M)
    ]
    grid(plane, across, below, (N, M), CELL, cells)
    for i in range(N):
        for j in range(M):
            number = f"{j - i}".replace("-", "−")
            middle = (across + CELL * (j + 0.5), below + CELL * (i + 0.5))
            plane.text(*middle, number, ha="center", **small)
            if j - i == CHOSEN:
                box(plane, across + CELL * j, below + CELL * i, CELL, CELL, edge=SECOND)
    start = (left + CELL * (chosen + 0.5), top + CELL + 3)
    arrow(plane, start, (across - 4, below + CELL * (-CHOSEN + 0.5)))
    plane.text(across - 8, below + CELL * 4.5, text["queries"], ha="right", **small)
    plane.text(across, below + CELL * N + 14, text["keys"], **small)

    past = -torch.arange(201)
    plot = axes(figure, 44, 316, 364, 180, xlim=(0, 200), ylim=(-0.5, 33))
    looks = (
        (False, "decoder", FIRST, "-", (74, 23.6)),
        (True, "encoder", SECOND, "--", (74, 11.4)),
    )
    for both, name, colour, dashes, place in looks:
        bucket = relative_buckets(past, bidirectional=both)
        look = {"color": colour, "linestyle": dashes, "drawstyle": "steps-post"}
        plot.plot(-past, bucket, **look)
        label(plot, place, text[name], colour)
    ticks(plot, x=range(0, 201, 50), y=(0, 8, 15, 31))
    name_axes(plot, text["behind"], text["bucket"])
    return figure
