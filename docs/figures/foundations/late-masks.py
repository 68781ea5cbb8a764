"""One causal mask in three places: before the softmax, after it, and along the wrong axis."""

import torch

from attnref.masks import causal
from docs.figures.drawing import (
    GRID,
    SECOND,
    SHADE,
    SMALL,
    SOFT,
    STRONGEST,
    box,
    canvas,
    new_figure,
)

TEXT = {
    "pt": {
        "right": "antes da softmax",
        "too_late": "depois dela",
        "wrong_axis": "no eixo errado",
        "rows": "soma",
        "legend": "Embaixo, as somas das colunas. Acima da diagonal: peso jogado fora.",
    },
    "en": {
        "right": "before the softmax",
        "too_late": "after it",
        "wrong_axis": "the wrong axis",
        "rows": "sum",
        "legend": "Below, the sums of the columns. Above the diagonal: weight thrown away.",
    },
}

N, CELL, STEP = 4, 24, 140


def draw(text):
    generator = torch.Generator().manual_seed(0)  # the scores of the program of the page
    scores = torch.randn(N, N, generator=generator)
    may = causal(N).dense()
    masked = scores.masked_fill(~may, -torch.inf)
    weighed = {
        "right": masked.softmax(dim=-1),
        "too_late": scores.softmax(dim=-1) * may,
        "wrong_axis": masked.softmax(dim=-2),
    }
    lost = {"too_late": scores.softmax(dim=-1) * ~may}
    figure = new_figure(196)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    top = 46
    for index, (name, weights) in enumerate(weighed.items()):
        left = 4 + STEP * index
        plane.text(left, 14, text[name], fontweight="semibold", **small)
        edge = left + N * CELL
        gone = lost.get(name, torch.zeros(N, N)).tolist()
        plane.text(edge + 6, top - 12, text["rows"], color=SOFT, **small)
        for row, line in enumerate(weights.tolist()):
            y = top + CELL * row
            for column, weight in enumerate(line):
                x = left + CELL * column
                box(plane, x, y, CELL, CELL, fill=SHADE, alpha=STRONGEST * weight, edge=GRID)
            for column, weight in enumerate(gone[row]):
                x = left + CELL * column
                if weight:
                    box(plane, x, y, CELL, CELL, fill=SECOND, alpha=STRONGEST * weight, edge=GRID)
            plane.text(edge + 6, y + CELL / 2, f"{sum(line):.2f}", **small)
        box(plane, left, top, N * CELL, N * CELL)
        for column, total in enumerate(weights.sum(0).tolist()):
            x = left + CELL * (column + 0.5)
            written = f"{total:.1f}"
            look = {"ha": "center", "color": SOFT, **small}
            plane.text(x, top + N * CELL + 13, written, **look)
    plane.text(4, 182, text["legend"], **small)
    return figure
