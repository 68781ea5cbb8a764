"""All terms of the mean square of a dot product as a square, for the cases of the page's program.

A cell is the mean of q_p k_p q_r k_r, counted over all outcomes of the random signs.
"""

import itertools

import torch

from docs.figures.drawing import SHADE, SMALL, SOFT, STRONGEST, box, canvas, new_figure

TEXT = {
    "pt": {
        "names": "todos|independentes;um número|repetido;três a três|independentes",
        "sum": "soma",
    },
    "en": {
        "names": "all|independent;one number|repeated;any three|independent",
        "sum": "sum",
    },
}

SIDE, LEFT, STEP, TOP = 112, 20, 134, 62


def draw_independent(signs):
    return signs[:, :4], signs[:, 4:8]


def repeat_component(signs):
    return signs[:, :1].expand(-1, 8), signs[:, 1:2].expand(-1, 8)


def triples(signs):
    a, b, t = signs[:, :3].T
    return torch.stack([a, t], -1), torch.stack([b, a * b * t], -1)


def terms(case):
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=8)))
    q, k = case(signs)
    products = q * k
    return products.T @ products / len(signs)


def draw(text):
    figure = new_figure(236)
    plane = canvas(figure)
    middle = {"ha": "center", "va": "center"}
    for number, case in enumerate((draw_independent, repeat_component, triples)):
        square = terms(case)
        left, cell = LEFT + STEP * number, SIDE / len(square)
        centre = left + SIDE / 2
        for line, words in enumerate(text["names"].split(";")[number].split("|")):
            plane.text(centre, 14 + 16 * line, words, fontweight="semibold", **middle)
        for p, row in enumerate(square.tolist()):
            plane.text(left - 8, TOP + (p + 0.5) * cell, p + 1, fontsize=SMALL, **middle)
            for r, mean in enumerate(row):
                x, y = left + r * cell, TOP + p * cell
                box(plane, x, y, cell, cell, fill=SHADE, alpha=STRONGEST * mean, edge=SOFT)
                if cell > 20:  # else there is room for the colour alone
                    word = f"{mean:g}"
                    plane.text(x + cell / 2, y + cell / 2, word, fontsize=SMALL, **middle)
        plane.text(centre, TOP + SIDE + 18, f"$d_k = {len(square)}$", **middle)
        words = f"{text['sum']} {square.sum().item():g}"
        plane.text(centre, TOP + SIDE + 40, words, fontweight="semibold", **middle)
    return figure
