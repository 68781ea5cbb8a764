"""The weights of one query under dropout: each draw a bar, as long as its sum."""

import torch

import attnref
from attnref.exercises.samples import SIX_WORDS
from docs.figures.drawing import GRID, INK, SHADE, SMALL, SOFT, STRONGEST, box, canvas, new_figure

TEXT = {
    "pt": {
        "all": "sem dropout",
        "draw": "sorteio {number}",
        "sum": "soma",
        "legend": "Cada peso tem a sua cor e o seu lugar na ordem das palavras.",
    },
    "en": {
        "all": "no dropout",
        "draw": "draw {number}",
        "sum": "sum",
        "legend": "Each weight has its shade, and its place in the order of the words.",
    },
}

WORDS = ["Your", "journey", "starts", "with", "one", "step"]
RATE, DRAWS, LEFT, UNIT, ROW = 0.5, 5, 92, 272, 34


def draw(text):
    weights = attnref.attention_weights(SIX_WORDS[1:2], SIX_WORDS, scale=1.0)[0].float()  # (6,)
    generator = torch.Generator().manual_seed(0)  # the draws of the program of the page
    rows = {text["all"]: weights}
    for number in range(1, DRAWS + 1):
        keep = torch.rand(len(WORDS), generator=generator) >= RATE
        kept = torch.where(keep, weights / (1 - RATE), 0.0)
        rows[text["draw"].format(number=number)] = kept

    figure = new_figure(44 + ROW * len(rows) + 40)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    bottom = 40 + ROW * len(rows)
    plane.plot([LEFT + UNIT, LEFT + UNIT], [32, bottom], color=INK, linewidth=1, linestyle="--")
    plane.text(LEFT + UNIT, 14, text["sum"] + " 1", ha="center", **small)
    for index, (name, row) in enumerate(rows.items()):
        top = 42 + ROW * index
        plane.text(8, top + 11, name, **small)
        left = LEFT
        for number, (word, weight) in enumerate(zip(WORDS, row.tolist(), strict=True)):
            if not weight:
                continue
            alpha = STRONGEST * (number + 1) / len(WORDS)
            box(plane, left, top, UNIT * weight, 22, fill=SHADE, alpha=alpha, edge=INK)
            plane.text(left + UNIT * weight / 2, top + 11, word, ha="center", **small)
            left += UNIT * weight
        plane.text(412, top + 11, f"{float(row.sum()):.2f}", ha="right", color=SOFT, **small)
    plane.plot([LEFT, LEFT], [36, bottom], color=GRID, linewidth=1)
    plane.text(8, bottom + 24, text["legend"], **small)
    return figure
