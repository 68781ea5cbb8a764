"""Three words as queries and as keys: by their own vectors, and by two projections set by hand."""

import torch

import attnref
from docs.figures.drawing import SHADE, SMALL, SOFT, STRONGEST, canvas, label, new_figure

TEXT = {
    "pt": {
        "own": "o próprio vetor",
        "projected": "duas projeções",
        "ends": "Em cima, a consulta de cada palavra; embaixo, a sua chave.",
        "lines": "Traços: os pesos de cada consulta, com o maior em número.",
    },
    "en": {
        "own": "its own vector",
        "projected": "two projections",
        "ends": "Above, the query of each word; below, its key.",
        "lines": "Lines: the weights of each query, with the largest as a number.",
    },
}

WORDS = ["dogs", "bark", "loudly"]
# As in the program of the page: columns are noun and verb.
W_Q = torch.tensor([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
W_K = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
STEP, UP, DOWN = 64, 84, 196


def draw(text):
    x = torch.eye(len(WORDS))
    figure = new_figure(290)
    plane = canvas(figure)
    centred = {"ha": "center", "va": "center"}
    drawn = {"own": (6 * x, x), "projected": (x @ W_Q, x @ W_K)}
    for index, (name, (queries, keys)) in enumerate(drawn.items()):
        left = 38 + 216 * index
        places = [left + STEP * word for word in range(len(WORDS))]
        plane.text(places[1], 14, text[name], fontweight="semibold", **centred)
        weights = attnref.attention_weights(queries, keys)  # (3, 3)
        for query, row in zip(places, weights.tolist(), strict=True):
            for key, weight in zip(places, row, strict=True):
                look = {"color": SHADE, "alpha": STRONGEST, "solid_capstyle": "butt"}
                plane.plot([query, key], [UP, DOWN], linewidth=16 * weight, **look)
        for query, row in zip(places, weights.tolist(), strict=True):
            key, weight = places[row.index(max(row))], max(row)
            part = 0.2  # of the way: further on lines cross
            place = (query + (key - query) * part, UP + (DOWN - UP) * part)
            label(plane, place, f"{weight:.2f}", side="center", halo=True)
        for y, vectors, sign in ((UP, queries, -1), (DOWN, keys, 1)):
            for place, word, vector in zip(places, WORDS, vectors.tolist(), strict=True):
                numbers = ", ".join(f"{number:g}" for number in vector)
                plane.text(place, y + 14 * sign, word, **centred)
                look = {"color": SOFT, "fontsize": SMALL, **centred}
                plane.text(place, y + 32 * sign, f"({numbers})", **look)
    for y, key in ((258, "ends"), (276, "lines")):
        plane.text(8, y, text[key], va="center", fontsize=SMALL)
    return figure
