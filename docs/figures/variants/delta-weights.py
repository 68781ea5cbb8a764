"""What each query still reads of each value: added, faded, corrected, and both."""

import math

import torch

from attnref import gated_delta_attention
from docs.figures.drawing import SMALL, SOFT, canvas, new_figure
from docs.figures.matrices import Fill, grid

TEXT = {
    "pt": {
        "added": "só soma",
        "decay": "decai, a = {decay}",
        "beta": "corrige, β = {beta}",
        "both": "decai e corrige",
        "axes": "linhas: consultas, cada uma por uma letra · colunas: valores",
    },
    "en": {
        "added": "adds",
        "decay": "fades, a = {decay}",
        "beta": "corrects, β = {beta}",
        "both": "fades and corrects",
        "axes": "rows: queries, each for a letter · columns: values",
    },
}

N, LETTERS, CELL = 12, 4, 12
DECAY, BETA = 0.8, 0.75


def weights(**rule):
    """Row t asks for the letter that comes after that of token t."""
    place = torch.arange(N)
    letters = torch.eye(LETTERS)
    query, key = letters[(place + 1) % LETTERS], letters[place % LETTERS]
    return gated_delta_attention(query, key, torch.eye(N), scale=1.0, **rule)  # (n, n)


def draw(text):
    fade = {"log_decay": torch.full((N,), math.log(DECAY))}
    share = {"beta": torch.full((N,), BETA)}
    panels = (("added", {}), ("decay", fade), ("beta", share), ("both", fade | share))
    figure = new_figure(442)
    plane = canvas(figure)
    look = {"va": "center", "fontsize": SMALL}
    for index, (name, rule) in enumerate(panels):
        left, top = 36 + 206 * (index % 2), 46 + 204 * (index // 2)
        table = weights(**rule)
        fills = [
            Fill(slice(i, i + 1), slice(j, j + 1), alpha=float(weight))
            for i, row in enumerate(table.tolist())
            for j, weight in enumerate(row)
            if weight > 0
        ]
        grid(plane, left, top, (N, N), CELL, fills)
        title = text[name].format(decay=DECAY, beta=BETA)
        plane.text(left + N * CELL / 2, top - 30, title, ha="center", **look)
        for token in range(N):
            middle = (token + 0.5) * CELL
            asked, given = ("ABCD"[(token + one) % LETTERS] for one in (1, 0))
            plane.text(left - 10, top + middle, asked, ha="center", color=SOFT, **look)
            plane.text(left + middle, top - 9, given, ha="center", color=SOFT, **look)
    plane.text(24, 424, text["axes"], color=SOFT, **look)
    return figure
