"""A sliding window computed in blocks: the band that counts, and the strips that are computed."""

from matplotlib.patches import Rectangle

from attnref import masks
from docs.figures.drawing import SECOND, SMALL, box, canvas, new_figure
from docs.figures.matrices import mask

TEXT = {
    "pt": {
        "queries": "consultas ↓, chaves →",
        "band": "cheio: a janela de 5 chaves",
        "strip": "contorno: o que um bloco de 6 consultas calcula",
    },
    "en": {
        "queries": "queries ↓, keys →",
        "band": "filled: the window of 5 keys",
        "strip": "outlined: what a block of 6 queries computes",
    },
}

N, WINDOW, ROWS, CELL = 24, 5, 6, 12


def draw(text):
    figure = new_figure(26 + N * CELL + 52)
    plane = canvas(figure)
    left, top = 8, 26
    small = {"va": "center", "fontsize": SMALL}
    plane.text(left, 13, text["queries"], **small)
    mask(plane, left, top, masks.sliding_window(N, window=WINDOW, is_causal=True).dense(), CELL)
    for start in range(0, N, ROWS):
        first, stop = max(0, start - WINDOW + 1), start + ROWS
        place = (left + CELL * first, top + CELL * start)
        look = {"fill": False, "edgecolor": SECOND, "linewidth": 2, "clip_on": False}
        size = (CELL * (stop - first), CELL * ROWS)
        plane.add_patch(Rectangle(place, *size, **look))
    box(plane, left, top, N * CELL, N * CELL)
    plane.text(left, top + N * CELL + 16, text["band"], **small)
    plane.text(left, top + N * CELL + 36, text["strip"], color=SECOND, **small)
    return figure
