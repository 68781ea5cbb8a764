"""Who looks at whom: the attention weights of the six words, as a map with its numbers."""

import attnref
from attnref.exercises.samples import SIX_WORDS
from docs.figures.drawing import GRID, SHADE, SMALL, SOFT, STRONGEST, box, canvas, new_figure

TEXT = {
    "pt": {
        "query": "consulta ↓",
        "key": "chave →",
        "sum": "Cada linha soma 1; em negrito, o seu maior peso.",
    },
    "en": {
        "query": "query ↓",
        "key": "key →",
        "sum": "Each row sums to 1; in bold, its largest weight.",
    },
}

WORDS = ["Your", "journey", "starts", "with", "one", "step"]
LEFT, TOP, CELL, ROW = 72, 46, 57, 38


def draw(text):
    weights = attnref.attention_weights(SIX_WORDS, SIX_WORDS, scale=1.0)  # (6, 6)
    figure = new_figure(TOP + 6 * ROW + 36)
    plane = canvas(figure)
    small = {"va": "center", "color": SOFT, "fontsize": SMALL}
    plane.text(LEFT - 10, TOP - 10, text["query"], ha="right", **small)
    plane.text(LEFT, TOP - 32, text["key"], **small)
    for index, word in enumerate(WORDS):
        across, down = LEFT + (index + 0.5) * CELL, TOP + (index + 0.5) * ROW
        plane.text(across, TOP - 10, word, ha="center", va="center")
        plane.text(LEFT - 10, down, word, ha="right", va="center")
    for row, line in enumerate(weights.tolist()):
        for column, weight in enumerate(line):
            x, y = LEFT + column * CELL, TOP + row * ROW
            # From nothing at 0 to the strongest at a quarter.
            alpha = STRONGEST * weight / 0.25
            box(plane, x, y, CELL, ROW, fill=SHADE, alpha=alpha, edge=GRID)
            plane.text(
                x + CELL / 2,
                y + ROW / 2,
                f"{weight:.4f}",
                ha="center",
                va="center",
                fontweight="semibold" if weight == max(line) else "normal",
            )
    plane.text(LEFT, TOP + 6 * ROW + 20, text["sum"], va="center", fontsize=SMALL)
    return figure
