"""Six answers to left padding with causality: the weights of three queries for three keys."""

import math
from pathlib import Path

import torch
import yaml

from docs.figures.drawing import SECOND, SMALL, STRONGEST, canvas, new_figure
from docs.figures.matrices import Fill, grid

TEXT = {
    "pt": {
        "zeros": "zeros",
        "nan": "NaN",
        "mean": "média de todos",
        "future": "o futuro",
        "mask_ignored": "só a causalidade",
        "causal_ignored": "só a máscara",
        "legend": "Linha: consulta. Coluna: chave. A primeira posição é preenchimento.",
    },
    "en": {
        "zeros": "zeros",
        "nan": "NaN",
        "mean": "mean of all",
        "future": "the future",
        "mask_ignored": "causality alone",
        "causal_ignored": "the mask alone",
        "legend": "Row: query. Column: key. The first position is padding.",
    },
}

QUESTIONS = Path(__file__).parents[2] / "behaviours" / "questions.yml"
CELL, COLUMN, ROW = 32, 136, 142


def draw(text):
    asked = yaml.safe_load(QUESTIONS.read_text(encoding="utf-8"))["left_padding"]["answers"]
    figure = new_figure(2 * ROW + 26)
    plane = canvas(figure)
    centred = {"ha": "center", "va": "center"}
    for number, name in enumerate(list(text)[:-1]):
        left, top = 20 + number % 3 * COLUMN, 30 + number // 3 * ROW
        weights = torch.tensor(asked[name]["output"])
        fills = [
            Fill(
                slice(i, i + 1),
                slice(j, j + 1),
                *((STRONGEST, SECOND) if math.isnan(weight) else (STRONGEST * weight,)),
            )
            for i, row in enumerate(weights.tolist())
            for j, weight in enumerate(row)
        ]
        plane.text(left + 1.5 * CELL, top - 14, text[name], fontweight="semibold", **centred)
        grid(plane, left, top, (3, 3), CELL, fills)
        for i, row in enumerate(weights.tolist()):
            for j, weight in enumerate(row):
                said = "NaN" if math.isnan(weight) else f"{weight:.2g}"
                at = left + (j + 0.5) * CELL, top + (i + 0.5) * CELL
                plane.text(*at, said, fontsize=SMALL, **centred)
    plane.text(8, 2 * ROW + 12, text["legend"], va="center", fontsize=SMALL)
    return figure
