"""What two heads get of four words: by a view and a transposition, and by a view alone."""

import torch

from docs.figures.drawing import FIRST, SECOND, SHADE, SMALL, THIRD, canvas, new_figure
from docs.figures.matrices import Fill, grid

TEXT = {
    "pt": {
        "words": "as palavras, metade para cada cabeça",
        "right": "view e transpose",
        "wrong": "só view",
        "head": "cabeça {head}",
        "legend": "Número e cor: de que palavra o número vem.",
    },
    "en": {
        "words": "the words, one half for each head",
        "right": "view and transpose",
        "wrong": "view alone",
        "head": "head {head}",
        "legend": "Number and colour: which word it comes from.",
    },
}

N, H, D, CELL = 4, 2, 3, 24
LOOKS = ((FIRST, 0.4), (SECOND, 0.3), (THIRD, 0.15), (SHADE, 0.08))


def draw(text):
    word = torch.arange(N)[:, None].expand(N, H * D)  # each number says whose it is
    right = word.view(N, H, D).transpose(0, 1)  # (H, N, D)
    wrong = word.reshape(H, N, D)

    figure = new_figure(436)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}

    def table(left, top, numbers):
        rows, columns = numbers.shape
        fills = [
            Fill(slice(i, i + 1), slice(j, j + 1), LOOKS[number][1], LOOKS[number][0])
            for i, row in enumerate(numbers.tolist())
            for j, number in enumerate(row)
        ]
        grid(plane, left, top, (rows, columns), CELL, fills)
        for i, row in enumerate(numbers.tolist()):
            for j, number in enumerate(row):
                x, y = left + CELL * (j + 0.5), top + CELL * (i + 0.5)
                plane.text(x, y, str(number), ha="center", **small)

    plane.text(20, 14, text["words"], va="center", fontweight="semibold")
    table(20, 30, word)
    middle = 20 + CELL * D
    plane.plot([middle, middle], [30, 30 + CELL * N], color=SECOND, linewidth=2)
    for left, key, heads in ((20, "right", right), (230, "wrong", wrong)):
        plane.text(left, 156, text[key], va="center", fontweight="semibold")
        for head in range(H):
            top = 172 + head * (CELL * N + 20)
            table(left, top, heads[head])
            plane.text(left + CELL * D + 12, top + 48, text["head"].format(head=head), **small)
    plane.text(20, 418, text["legend"], **small)
    return figure
