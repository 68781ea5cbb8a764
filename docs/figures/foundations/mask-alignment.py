"""A causal mask for fewer queries than keys, in its two meanings."""

from attnref import masks
from docs.figures.drawing import GROUND, SMALL, canvas, new_figure
from docs.figures.matrices import mask

TEXT = {
    "pt": {
        "top-left": "superior esquerdo: $j ≤ i$",
        "bottom-right": "inferior direito: $j ≤ i + m − n$",
        "query": "consulta",
        "key": "chave $j$",
        "own": "Círculo: a própria chave da consulta.",
    },
    "en": {
        "top-left": "top-left: $j ≤ i$",
        "bottom-right": "bottom-right: $j ≤ i + m − n$",
        "query": "query",
        "key": "key $j$",
        "own": "Circle: the query's own key.",
    },
}

N, M, CELL = 2, 6, 42


def draw(text):
    figure = new_figure(320)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    for index, (alignment, offset) in enumerate({"top-left": 0, "bottom-right": M - N}.items()):
        left, top = 110, 56 + 150 * index
        allowed = masks.causal(N, M, alignment=alignment).dense()
        mask(plane, left, top, allowed, CELL)
        plane.text(left, top - 40, text[alignment], va="center", fontweight="semibold")
        plane.text(left - 12, top - 13, text["key"], ha="right", **small)
        for j in range(M):
            plane.text(left + (j + 0.5) * CELL, top - 13, str(j), ha="center", **small)
        for i in range(N):
            y = top + (i + 0.5) * CELL
            plane.text(left - 12, y, f"{text['query']} $i = {i}$", ha="right", **small)
            own = left + (i + offset + 0.5) * CELL
            plane.plot([own], [y], "o", color=GROUND, markersize=9)
    plane.text(110, 306, text["own"], **small)
    return figure
