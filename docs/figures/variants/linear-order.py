"""Linear attention: two orders of the same three factors, and what each forms in between."""

import torch
from torch.nn.functional import elu

from docs.figures.drawing import SMALL, canvas, new_figure
from docs.figures.matrices import WHOLE, product
from docs.figures.tokens import noise

TEXT = {
    "pt": {
        "square": "primeiro consultas com chaves: $n^2$ pesos",
        "state": "primeiro chaves com valores: um estado que não conhece $n$",
    },
    "en": {
        "square": "queries with keys first: $n^2$ weights",
        "state": "keys with values first: a state that does not grow with $n$",
    },
}

N, WIDTH, VALUES, CELL = 8, 3, 4, 8


def draw(text):
    generator = torch.Generator().manual_seed(0)
    q, k = (elu(noise(N, WIDTH, generator)) + 1 for _ in range(2))
    v = noise(N, VALUES, generator)
    weights, state = q @ k.T, k.T @ v
    figure = new_figure(300)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    plane.text(4, 14, text["square"], **small)
    right = product(
        plane, 4, 84, ("$φ(Q)$", q), ("$φ(K)^⊤$", k.T), ("$P$", weights, WHOLE), cell=CELL
    )
    product(
        plane, right + 28, 84, ("$P$", weights, WHOLE), ("$V$", v), ("$O$", weights @ v), cell=CELL
    )
    plane.text(4, 164, text["state"], **small)
    right = product(plane, 4, 234, ("$φ(K)^⊤$", k.T), ("$V$", v), ("$S$", state, WHOLE), cell=CELL)
    product(
        plane, right + 28, 234, ("$φ(Q)$", q), ("$S$", state, WHOLE), ("$O$", q @ state), cell=CELL
    )
    return figure
