"""Linformer: keys and values are mixed first, and queries meet the mixtures."""

import torch

from attnref import mean_projection
from docs.figures.drawing import SMALL, canvas, new_figure
from docs.figures.matrices import WHOLE, product
from docs.figures.tokens import noise

TEXT = {
    "pt": {
        "mix": "misturar: de $m$ chaves e valores, $r$ de cada",
        "attend": "olhar para as misturas: $n r$ pesos",
    },
    "en": {
        "mix": "mix: from $m$ keys and values to $r$ of each",
        "attend": "attend to the mixtures: $n r$ weights",
    },
}

N, KEYS, RANK, WIDTH, CELL = 8, 10, 3, 4, 8


def draw(text):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (noise(rows, WIDTH, generator) for rows in (N, KEYS, KEYS))
    e = f = mean_projection(RANK, KEYS, dtype=torch.float64)
    weights = (q @ (e @ k).T).softmax(-1)
    figure = new_figure(290)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    plane.text(4, 14, text["mix"], **small)
    right = product(plane, 4, 88, ("$E$", e), ("$K$", k), ("$EK$", e @ k, WHOLE), cell=CELL)
    product(plane, right + 20, 88, ("$F$", f), ("$V$", v), ("$FV$", f @ v, WHOLE), cell=CELL)
    plane.text(4, 166, text["attend"], **small)
    right = product(
        plane, 4, 232, ("$Q$", q), ("$(EK)^⊤$", (e @ k).T, WHOLE), ("$P$", weights), cell=CELL
    )
    product(
        plane,
        right + 40,
        232,
        ("$P$", weights),
        ("$FV$", f @ v, WHOLE),
        ("$O$", weights @ (f @ v)),
        cell=CELL,
    )
    return figure
