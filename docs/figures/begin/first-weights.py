"""The weights of one head of the first program: five queries look at seven keys."""

import torch

import attnref
from docs.figures.drawing import GRID, SHADE, SMALL, SOFT, STRONGEST, box, canvas, new_figure

TEXT = {
    "pt": {"key": "chaves →", "query": "consultas ↓"},
    "en": {"key": "keys →", "query": "queries ↓"},
}

LEFT, TOP, CELL, ROW = 30, 44, 55, 36


def draw(text):
    generator = torch.Generator().manual_seed(0)  # the tensors of the program of the page
    query = torch.randn(2, 3, 5, 8, generator=generator)
    key = torch.randn(2, 3, 7, 8, generator=generator)
    weights = attnref.attention_weights(query, key)[0, 2]  # (5, 7), of the third head
    largest = float(weights.max())

    figure = new_figure(TOP + ROW * len(weights) + 6)
    plane = canvas(figure)
    look = {"va": "center", "color": SOFT}
    plane.text(LEFT, 12, text["query"], fontsize=SMALL, **look)
    plane.text(412, 12, text["key"], ha="right", fontsize=SMALL, **look)
    for column in range(weights.shape[1]):
        plane.text(LEFT + CELL * (column + 0.5), 32, str(column + 1), ha="center", **look)
    for number, line in enumerate(weights.tolist()):
        y = TOP + ROW * number
        plane.text(LEFT - 14, y + ROW / 2, str(number + 1), ha="center", **look)
        for column, weight in enumerate(line):
            x = LEFT + CELL * column
            alpha = STRONGEST * weight / largest
            box(plane, x, y, CELL, ROW, fill=SHADE, alpha=alpha, edge=GRID)
            plane.text(
                x + CELL / 2,
                y + ROW / 2,
                f"{weight:.2f}",
                ha="center",
                va="center",
                fontweight="semibold" if weight == max(line) else "normal",
            )
    return figure
