"""The path back from the last position to the first word: along a recurrence, and by attention."""

from attnref.masks import causal, sliding_window
from docs.figures.drawing import (
    GROUND,
    INK,
    SECOND,
    SHADE,
    SMALL,
    STRONGEST,
    arrow,
    box,
    canvas,
    new_figure,
)

TEXT = {
    "pt": {
        "recurrent": "recorrência: {steps} passos da última palavra à primeira",
        "attention": "atenção: {steps} passo da última palavra à primeira",
        "decoder": "ao decodificador →",
        "legend": "Linha grossa: o caminho de volta até $x_1$.",
    },
    "en": {
        "recurrent": "recurrence: {steps} steps from the last word to the first",
        "attention": "attention: {steps} step from the last word to the first",
        "decoder": "to the decoder →",
        "legend": "Thick line: the path back to $x_1$.",
    },
}

N, STEP, SIZE = 6, 68, 34
BEHIND = 0.5  # below what boxes are filled with
PLACES = [40 + STEP * word for word in range(N)]


def steps(mask):
    """Layers with this mask until the last position has heard the first word."""
    sees = mask.dense().float()
    heard, count = sees, 1
    while heard[-1, 0] == 0:
        heard, count = heard @ sees, count + 1
    return count


def draw(text):
    figure = new_figure(372)
    plane = canvas(figure)
    centred = {"ha": "center", "va": "center"}

    def node(x, y, name, alpha=0.18):
        box(plane, x - SIZE / 2, y - SIZE / 2, SIZE, SIZE, fill=GROUND, edge=None)
        box(plane, x - SIZE / 2, y - SIZE / 2, SIZE, SIZE, fill=SHADE, alpha=alpha, edge=INK)
        plane.text(x, y, f"${name}$", **centred)

    def way(*points):
        across, down = zip(*points, strict=True)
        plane.plot(across, down, color=SECOND, linewidth=5, zorder=BEHIND)

    def title(y, key, mask):
        words = text[key].format(steps=steps(mask))
        plane.text(8, y, words, va="center", fontweight="semibold")

    first, last = PLACES[0], PLACES[-1]
    states, words = 74, 140
    title(14, "recurrent", sliding_window(N, window=2, is_causal=True))
    plane.text(412, 42, text["decoder"], ha="right", va="center", fontsize=SMALL)
    way((last, states), (first, states), (first, words))
    for number, x in enumerate(PLACES, 1):
        arrow(plane, (x, words - SIZE / 2), (x, states + SIZE / 2))
        if number > 1:
            arrow(plane, (x - STEP + SIZE / 2, states), (x - SIZE / 2, states))
            plane.text(x - STEP / 2, states - 16, f"$J_{number}$", fontsize=SMALL, **centred)
        node(x, states, f"u_{number}", STRONGEST if number == N else 0.18)
        node(x, words, f"x_{number}")

    output, words = 232, 316
    title(190, "attention", causal(N))
    way((last, output + SIZE / 2), (first, words - SIZE / 2))
    for x in PLACES:
        arrow(plane, (x, words - SIZE / 2), (last, output + SIZE / 2))
    for number, x in enumerate(PLACES, 1):
        node(x, words, f"x_{number}")
    node(last, output, "o", STRONGEST)
    plane.text(8, 358, text["legend"], va="center", fontsize=SMALL)
    return figure
