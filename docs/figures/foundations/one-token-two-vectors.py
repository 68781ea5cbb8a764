"""One token in two sentences: its numbers before attention and after it, as strips of cells."""

import torch

import attnref
from docs.figures.drawing import (
    FIRST,
    GRID,
    SECOND,
    SMALL,
    SOFT,
    STRONGEST,
    arrow,
    box,
    canvas,
    new_figure,
)

TEXT = {
    "pt": {
        "table": "linha de bank na tabela",
        "before": "na entrada",
        "after": "depois da atenção",
        "change": "só a mudança, {times} vezes mais forte",
        "apart": "distância {distance:.2f}",
        "legend": "Cada célula é um número:",
        "positive": "positivo",
        "negative": "negativo",
    },
    "en": {
        "table": "row of bank in the table",
        "before": "at the input",
        "after": "after attention",
        "change": "the change alone, {times} times as strong",
        "apart": "distance {distance:.2f}",
        "legend": "Each cell is a number:",
        "positive": "positive",
        "negative": "negative",
    },
}

WIDTH, CELL, LEFT, TIMES = 16, 16, 140, 5
SENTENCES = {"we sat by the bank": 4, "the bank lent the bank money": 1}  # and where bank is


def draw(text):
    generator = torch.Generator().manual_seed(0)
    tokens = sorted(set(" ".join(SENTENCES).split()))
    table = torch.randn(len(tokens), WIDTH, generator=generator)
    inputs = [table[[tokens.index(token) for token in words.split()]] for words in SENTENCES]
    outputs = [attnref.scaled_dot_product_attention(x, x, x) for x in inputs]
    places = SENTENCES.values()
    before = [x[place] for x, place in zip(inputs, places, strict=True)]
    after = [y[place] for y, place in zip(outputs, places, strict=True)]
    change = [TIMES * (y - x) for x, y in zip(before, after, strict=True)]
    largest = float(table[tokens.index("bank")].abs().max())

    figure = new_figure(402)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}

    def strip(y, vector):
        for index, number in enumerate(vector.tolist()):
            look = {"fill": FIRST if number > 0 else SECOND, "edge": GRID}
            alpha = STRONGEST * min(1, abs(number) / largest)
            box(plane, LEFT + CELL * index, y, CELL, CELL, alpha=alpha, **look)
        box(plane, LEFT, y, CELL * WIDTH, CELL)

    middle = LEFT + CELL * WIDTH / 2
    plane.text(LEFT, 12, text["table"], **small)
    strip(22, table[tokens.index("bank")])
    arrow(plane, (middle, 40), (middle, 64))
    arrow(plane, (middle, 144), (middle, 168))
    for top, key, vectors in (
        (74, "before", before),
        (178, "after", after),
        (278, "change", change),
    ):
        distance = float((vectors[0] - vectors[1]).norm())
        plane.text(LEFT, top, text[key].format(times=TIMES), fontweight="semibold", va="center")
        if key != "change":
            apart = text["apart"].format(distance=distance)
            plane.text(LEFT + CELL * WIDTH, top, apart, ha="right", **small)
        for index, (words, vector) in enumerate(zip(SENTENCES, vectors, strict=True)):
            y = top + 12 + 30 * index
            strip(y, vector)
            halves = words.split()
            first = " ".join(halves[: len(halves) // 2])
            second = " ".join(halves[len(halves) // 2 :])
            plane.text(LEFT - 10, y + 1, first, ha="right", color=SOFT, **small)
            plane.text(LEFT - 10, y + 15, second, ha="right", color=SOFT, **small)
    plane.text(8, 384, text["legend"], **small)
    for x, key, colour in ((172, "positive", FIRST), (272, "negative", SECOND)):
        box(plane, x, 376, CELL, CELL, fill=colour, alpha=STRONGEST, edge=GRID)
        plane.text(x + CELL + 8, 384, text[key], **small)
    return figure
