"""One token in two sentences: its numbers before attention and after it, as strips of cells."""

import torch
from drawing import FIRST, GRID, INK, SECOND, SMALL, SOFT, STRONGEST, arrow, box, canvas, new

import attnref

TEXT = {
    "pt": {
        "table": "linha de bank na tabela",
        "before": "na entrada",
        "after": "depois da atenção",
        "apart": "distância {distance:.2f}",
        "legend": "Cada célula é um número:",
        "positive": "positivo",
        "negative": "negativo",
    },
    "en": {
        "table": "row of bank in the table",
        "before": "at the input",
        "after": "after attention",
        "apart": "distance {distance:.2f}",
        "legend": "Each cell is a number:",
        "positive": "positive",
        "negative": "negative",
    },
}

WIDTH, CELL, LEFT = 16, 16, 140
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
    largest = float(table[tokens.index("bank")].abs().max())

    figure = new(308)
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
    for top, key, vectors in ((72, "before", before), (178, "after", after)):
        arrow(plane, (middle, top - 32), (middle, top - 8))
        distance = float((vectors[0] - vectors[1]).norm())
        plane.text(LEFT, top, text[key], fontweight="semibold", va="center")
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
    plane.text(8, 290, text["legend"], color=INK, **small)
    for x, key, colour in ((172, "positive", FIRST), (272, "negative", SECOND)):
        box(plane, x, 282, CELL, CELL, fill=colour, alpha=STRONGEST, edge=GRID)
        plane.text(x + CELL + 8, 290, text[key], **small)
    return figure
