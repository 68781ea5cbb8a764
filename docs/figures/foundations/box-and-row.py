"""Three sequences in a padded box and in a packed row, with the scores that each computes."""

import torch

from attnref import cost, masks
from docs.figures.drawing import INK, SMALL, canvas, new_figure
from docs.figures.matrices import Fill, grid, mask

TEXT = {
    "pt": {
        "box": "a caixa",
        "places": "{places} lugares, {real} palavras",
        "row": "a linha empacotada",
        "borders": "fronteiras {borders}",
        "scores": "{count} escores, {real} verdadeiros",
        "legend": "Cheio: palavras e pares verdadeiros.",
    },
    "en": {
        "box": "the box",
        "places": "{places} places, {real} words",
        "row": "the packed row",
        "borders": "borders {borders}",
        "scores": "{count} scores, {real} real",
        "legend": "Filled: real words and real pairs.",
    },
}

LENGTHS, CELL, RIGHT = (3, 5, 2), 16, 216  # the sequences of the program of the page


def draw(text):
    longest, words = max(LENGTHS), sum(LENGTHS)
    packed = masks.packed(LENGTHS)
    places, computed = len(LENGTHS) * longest, len(LENGTHS) * longest**2
    shares = (words / places, packed.count() / computed)
    assert cost.useful_share(LENGTHS) == shares  # what is filled is what the page's law says
    borders = [0, *torch.tensor(LENGTHS).cumsum(0).tolist()]

    figure = new_figure(424)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}

    def fill_tokens(length):
        return [Fill(slice(length), slice(length), alpha=1)]

    plane.text(8, 14, text["box"], fontweight="semibold", **small)
    plane.text(8, 30, text["places"].format(places=places, real=words), **small)
    plane.text(RIGHT, 14, text["row"], fontweight="semibold", **small)
    written = ", ".join(map(str, borders))
    plane.text(RIGHT, 30, text["borders"].format(borders=written), **small)
    grid(plane, RIGHT, 64, (1, words), CELL, [Fill(alpha=1)])
    for border in borders:
        x = RIGHT + CELL * border
        plane.plot([x, x], [60, 64 + CELL + 4], color=INK, linewidth=2, solid_capstyle="butt")
    for number, length in enumerate(LENGTHS):
        y = 44 + (CELL + 4) * number
        grid(plane, 8, y, (1, longest), CELL, [Fill(columns=slice(length), alpha=1)])
        y = 144 + (longest * CELL + 2) * number
        grid(plane, 8, y, (longest, longest), CELL, fill_tokens(length))
    mask(plane, RIGHT, 144, packed.dense(), CELL)
    counts = {"real": packed.count()}
    plane.text(8, 128, text["scores"].format(count=computed, **counts), **small)
    plane.text(RIGHT, 128, text["scores"].format(count=words**2, **counts), **small)
    plane.text(8, 412, text["legend"], **small)
    return figure
