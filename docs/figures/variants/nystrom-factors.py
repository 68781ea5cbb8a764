"""Nyström attention: three thin factors instead of a square of weights."""

import torch

from docs.figures.drawing import SMALL, canvas, new_figure
from docs.figures.matrices import WHOLE, product
from docs.figures.tokens import noise

TEXT = {
    "pt": {"legend": "$n = m = 12$ tokens e $r = 3$ marcos; só os fatores são formados"},
    "en": {"legend": "$n = m = 12$ tokens and $r = 3$ landmarks; only the factors are formed"},
}

N, RANK, WIDTH, CELL = 12, 3, 4, 9


def draw(text):
    generator = torch.Generator().manual_seed(0)
    q, k = noise(N, WIDTH, generator), noise(N, WIDTH, generator)
    landmarks = [x.unflatten(0, (RANK, -1)).mean(1) for x in (q, k)]
    columns = (q @ landmarks[1].T).softmax(-1)
    core = (landmarks[0] @ landmarks[1].T).softmax(-1).pinverse()
    rows = (landmarks[0] @ k.T).softmax(-1)
    figure = new_figure(186)
    plane = canvas(figure)
    product(
        plane,
        24,
        82,
        ("$F$", columns, WHOLE),
        ("$A^+$", core, WHOLE),
        ("$B$", rows, WHOLE),
        ("$P$", columns @ core @ rows),
        cell=CELL,
    )
    plane.text(4, 172, text["legend"], va="center", fontsize=SMALL)
    return figure
