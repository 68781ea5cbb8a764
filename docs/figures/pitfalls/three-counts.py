"""Three ways to lose count of the positions, and the right count below each."""

import torch

from docs.figures.drawing import SECOND, SHADE, SMALL, SOFT, box, canvas, new_figure

TEXT = {
    "pt": {
        "left": "Preenchimento à esquerda",
        "cache": "Um passo com cache de 4 palavras",
        "bf16": "Contar em bfloat16",
        "wrong": "por lugar|de 0 outra vez|em bfloat16",
        "right": "por palavra|depois do cache|em int64",
        "legend": "Em negrito: uma posição errada. −: preenchimento.",
    },
    "en": {
        "left": "Padding on the left",
        "cache": "A step with a cache of 4 words",
        "bf16": "Counting in bfloat16",
        "wrong": "by place|from 0 again|in bfloat16",
        "right": "by word|after the cache|in int64",
        "legend": "Bold: a wrong position. −: padding.",
    },
}

CELL, HIGH, LEFT = 40, 26, 124


def counts():
    """For each case, the wrong positions and the right ones; None where there is no word."""
    keep = torch.tensor([False, False, False, True, True, True, True])
    place, word = torch.arange(7), keep.cumsum(0) - 1
    padded = [
        [int(number) if is_word else None for number, is_word in zip(row, keep, strict=True)]
        for row in (place, word)
    ]
    cached = torch.arange(4)
    step = [torch.cat([cached, torch.arange(1) + offset]).tolist() for offset in (0, len(cached))]
    wide = torch.arange(255, 262)
    narrow = wide.to(torch.bfloat16).long()
    return {"left": padded, "cache": step, "bf16": [narrow.tolist(), wide.tolist()]}


def draw(text):
    figure = new_figure(330)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    for case, (key, (wrong, right)) in enumerate(counts().items()):
        top = 14 + 100 * case
        plane.text(8, top, text[key], va="center", fontweight="semibold")
        for line, (side, numbers) in enumerate((("wrong", wrong), ("right", right))):
            y = top + 16 + line * (HIGH + 6)
            plane.text(LEFT - 10, y + HIGH / 2, text[side].split("|")[case], ha="right", **small)
            for place, (number, true) in enumerate(zip(numbers, right, strict=True)):
                x = LEFT + CELL * place
                bad = number != true
                ground = None if number is None else SHADE
                edge = SECOND if bad else SOFT
                box(plane, x, y, CELL - 4, HIGH, fill=ground, alpha=0.18, edge=edge)
                words = "−" if number is None else str(number)
                look = {"color": SECOND, "fontweight": "semibold"} if bad else {}
                plane.text(x + CELL / 2 - 2, y + HIGH / 2, words, ha="center", **look, **small)
    plane.text(8, 316, text["legend"], **small)
    return figure
