"""Which pairs meet in attention by hashing: sorted by hash, and in the order of the text."""

import torch

from attnref import lsh_attention, random_rotations
from docs.figures.drawing import SMALL, canvas, new_figure
from docs.figures.matrices import mask
from docs.figures.tokens import noise

TEXT = {
    "pt": {
        "sorted": "uma rodada, por hash",
        "one": "uma rodada, no texto",
        "four": "quatro rodadas",
    },
    "en": {
        "sorted": "one round, by hash",
        "one": "one round, in text order",
        "four": "four rounds",
    },
}

N, D, CHUNK, CELL, STEP = 24, 8, 3, 5.3, 142


def draw(text):
    generator = torch.Generator().manual_seed(3)
    tokens = noise(N, D, generator)
    rotations = random_rotations(4, D, num_buckets=8, generator=generator, dtype=torch.float64)
    eye = torch.eye(N, dtype=torch.float64)

    def meeting_pairs(rounds):
        options = {"rotations": rotations[:rounds], "block_size": CHUNK}
        return lsh_attention(tokens, tokens, eye, **options) > 0

    products = tokens @ rotations[0]
    order = torch.cat([products, -products], -1).argmax(-1).argsort(stable=True)
    figure = new_figure(172)
    plane = canvas(figure)
    pictures = {
        "sorted": meeting_pairs(1)[order][:, order],
        "one": meeting_pairs(1),
        "four": meeting_pairs(4),
    }
    for index, (name, allowed) in enumerate(pictures.items()):
        left = 4 + STEP * index
        plane.text(left, 14, text[name], va="center", fontsize=SMALL)
        mask(plane, left, 30, allowed, CELL)
    return figure
