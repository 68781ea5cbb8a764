"""The Jacobian of the softmax as a square of cells, below the weights it belongs to."""

import torch

from docs.figures.drawing import (
    FIRST,
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
        "names": "iguais;dois rivais;um vencedor",
        "weights": "pesos $p$",
        "jacobian": "jacobiana $J$",
        "trace": "traço",
        "legend": "Fora da diagonal nenhum número é positivo.",
    },
    "en": {
        "names": "equal;two rivals;one winner",
        "weights": "weights $p$",
        "jacobian": "Jacobian $J$",
        "trace": "trace",
        "legend": "Off the diagonal no number is positive.",
    },
}

SCORES = [[0, 0, 0, 0, 0], [8, 8, 0, 0, 0], [8, 0, 0, 0, 0]]
CELL, LEFT, STEP = 22, 20, 136
FLOOR, TOP, HIGH = 114, 150, 66


def draw(text):
    figure = new_figure(326)
    plane = canvas(figure)
    rows = torch.tensor(SCORES, dtype=torch.float64).softmax(-1)
    for number, p in enumerate(rows):
        left = LEFT + STEP * number
        width = CELL * len(p)
        centre = left + width / 2
        name = text["names"].split(";")[number]
        plane.text(centre, 14, name, ha="center", va="center", fontweight="semibold")
        plane.plot([left, left + width], [FLOOR, FLOOR], color=SOFT, linewidth=1)
        for i, weight in enumerate(p.tolist()):
            height = HIGH * weight
            box(plane, left + CELL * i + 3, FLOOR - height, CELL - 6, height, fill=FIRST, edge=None)
        jacobian = p.diag() - torch.outer(p, p)
        for i, line in enumerate(jacobian.tolist()):
            for j, entry in enumerate(line):
                colour = SHADE if entry > 0 else SECOND
                alpha = STRONGEST * abs(entry) / 0.25  # no entry of a Jacobian is larger
                x, y = left + CELL * j, TOP + CELL * i
                box(plane, x, y, CELL, CELL, fill=colour, alpha=alpha, edge=SOFT)
        trace = f"{jacobian.trace().item():.3f}"
        plane.text(centre, TOP + width + 18, f"{text['trace']} {trace}", ha="center", va="center")
    plane.text(LEFT, 36, text["weights"], va="center", fontsize=SMALL)
    plane.text(LEFT, TOP - 14, text["jacobian"], va="center", fontsize=SMALL)
    plane.text(LEFT, 310, text["legend"], va="center", fontsize=SMALL)
    return figure
