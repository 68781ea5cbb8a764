"""Three sequences: padded to one length, or packed with their borders."""

import torch

from attnref import masks
from docs.figures.drawing import SMALL, SOFT, canvas, new_figure
from docs.figures.matrices import Fill, grid, mask

TEXT = {
    "pt": {
        "padded": "com preenchimento: {count} escores",
        "packed": "empacotadas: {count} escores",
        "borders": "fronteiras {borders}",
        "sequence": "sequência {number}",
        "legend": "Cheio: escores de pares reais. Vazio, à esquerda: calculado à toa.",
    },
    "en": {
        "padded": "padded: {count} scores",
        "packed": "packed: {count} scores",
        "borders": "borders {borders}",
        "sequence": "sequence {number}",
        "legend": "Filled: scores of real pairs. Empty, on the left: computed for nothing.",
    },
}

LENGTHS, CELL = (3, 6, 2), 13


def draw(text):
    longest = max(LENGTHS)
    packed = masks.packed(LENGTHS)
    figure = new_figure(44 + 3 * (longest * CELL + 26) + 24)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    wasted = len(LENGTHS) * longest**2
    plane.text(8, 12, text["padded"].format(count=wasted), **small)
    for number, length in enumerate(LENGTHS, 1):
        top = 54 + (number - 1) * (longest * CELL + 26)
        plane.text(8, top - 12, text["sequence"].format(number=number), color=SOFT, **small)
        real = Fill(slice(0, length), slice(0, length), alpha=1)
        grid(plane, 8, top, (longest, longest), CELL, [real])
    left, top = 228, 74
    plane.text(left, 12, text["packed"].format(count=packed.count()), **small)
    borders = [0, *torch.tensor(LENGTHS).cumsum(0).tolist()]
    plane.text(left, 30, text["borders"].format(borders=", ".join(map(str, borders))), **small)
    mask(plane, left, top, packed.dense(), CELL)
    for border in borders:
        plane.text(left + border * CELL, top - 11, str(border), ha="center", **small)
    plane.text(8, 44 + 3 * (longest * CELL + 26) + 12, text["legend"], **small)
    return figure
