"""Which keys share one score in hierarchical attention: runs, read off its weights."""

import torch

from attnref import hierarchical_attention
from docs.figures.drawing import GROUND, INK, SHADE, SMALL, SOFT, box, canvas, new_figure
from docs.figures.tokens import noise

TEXT = {
    "pt": {
        "both": "toda chave",
        "causal": "causal",
        "keys": "chaves, da esquerda para a direita; consultas, de cima para baixo",
    },
    "en": {
        "both": "every key",
        "causal": "causal",
        "keys": "keys from left to right, queries from top to bottom",
    },
}

N, BLOCK, CELL = 32, 2, 6


def runs(row):
    """Where equal weights begin and end in a row."""
    ends = [i + 1 for i in range(N - 1) if abs(row[i] - row[i + 1]) > 1e-12]
    return list(zip([0, *ends], [*ends, N], strict=True))


def draw(text):
    generator = torch.Generator().manual_seed(0)
    q, k = noise(N, 4, generator), noise(N, 4, generator)
    eye = torch.eye(N, dtype=torch.float64)
    figure = new_figure(252)
    plane = canvas(figure)
    for left, key in ((4, "both"), (4 + N * CELL + 24, "causal")):
        plane.text(left, 14, text[key], va="center", fontsize=SMALL)
        weights = hierarchical_attention(
            q, k, eye, is_causal=key == "causal", block_size=BLOCK, num_means=1
        )
        for block in range(0, N, BLOCK):
            row = weights[block + BLOCK - 1].tolist()  # the one that sees most
            for start, end in runs(row):
                if row[start] == 0:
                    continue
                alpha = 0.55 if end - start == 1 else 0.14
                place = (left + start * CELL, 28 + block * CELL)
                size = ((end - start) * CELL, BLOCK * CELL)
                box(plane, *place, *size, fill=SHADE, alpha=alpha, edge=GROUND)
        box(plane, left, 28, N * CELL, N * CELL, edge=INK)
    plane.text(4, 28 + N * CELL + 18, text["keys"], va="center", color=SOFT, fontsize=SMALL)
    return figure
