"""Shapes of masks lined up from the right under the shape of the scores, and what becomes of it."""

import torch

from docs.figures.drawing import SECOND, SHADE, SMALL, SOFT, box, canvas, new_figure

TEXT = {
    "pt": {
        "scores": "escores",
        "mask": "máscara",
        "error": "mensagem: {m} não cabe em {n}",
        "right": "certo: cada sequência tem a sua linha",
        "silent": "sem mensagem: a linha da sequência vai para a consulta",
        "names": "lote|cabeças|consultas|chaves",
    },
    "en": {
        "scores": "scores",
        "mask": "mask",
        "error": "a message: {m} does not fit {n}",
        "right": "right: each sequence has its own row",
        "silent": "no message: the sequence's row goes to the query",
        "names": "batch|heads|queries|keys",
    },
}

LEFT, CELL, HIGH = 96, 78, 28
CASES = (  # shape of the scores, shape of the mask
    ((2, 3, 5, 7), (2, 7)),
    ((2, 3, 2, 7), (2, 7)),
    ((2, 3, 5, 7), (2, 1, 1, 7)),
)


def outcome(scores, mask):
    """What PyTorch does with the two, tried out on a mask that differs between sequences."""
    allowed = torch.zeros(mask, dtype=torch.bool)
    allowed[0] = True
    try:
        spread = allowed.expand(scores)
    except RuntimeError:
        return "error"
    # Right if a sequence's allowed keys are the same for all of its queries.
    return "right" if (spread == spread[:, :, :1]).all() else "silent"


def draw(text):
    figure = new_figure(370)
    plane = canvas(figure)
    centred = {"ha": "center", "va": "center"}
    for place, name in enumerate(text["names"].split("|")):
        x = LEFT + CELL * (place + 0.5)
        plane.text(x, 14, name, fontsize=SMALL, color=SOFT, **centred)
    for case, (scores, mask) in enumerate(CASES):
        top = 32 + 116 * case
        verdict = outcome(scores, mask)
        for line, (key, shape) in enumerate((("scores", scores), ("mask", mask))):
            y = top + line * (HIGH + 4)
            plane.text(LEFT - 10, y + HIGH / 2, text[key], ha="right", va="center", fontsize=SMALL)
            for place, size in enumerate(shape, 4 - len(shape)):
                x = LEFT + CELL * place
                box(plane, x, y, CELL, HIGH, fill=SHADE, alpha=0.35 if line else 0.12)
                plane.text(x + CELL / 2, y + HIGH / 2, str(size), **centred)
        words = text[verdict].format(m=mask[0], n=scores[-2])
        colour = {} if verdict == "right" else {"color": SECOND}
        plane.text(
            412, top + 2 * HIGH + 22, words, ha="right", va="center", fontsize=SMALL, **colour
        )
    return figure
