"""How many features a polynomial in the scores needs, against the largest score."""

import math

from docs.figures.drawing import (
    FIRST,
    SECOND,
    SOFT,
    THIRD,
    axes,
    label,
    name_axes,
    new_figure,
    powers,
    ticks,
)

TEXT = {
    "pt": {
        "x": "maior escore $b$",
        "y": "características para 1% de erro em cada potência",
        "tokens": "um milhão de tokens",
    },
    "en": {
        "x": "largest score $b$",
        "y": "features for an error of 1 % in each power",
        "tokens": "one million tokens",
    },
}

BOUNDS = [0.125 * 2**power for power in range(7)]


def degree(bound):
    """Of the Taylor series that errs by 1 % at most between -bound and bound."""
    found, power, total = 0, 1.0, 1.0
    while abs(total - math.exp(-bound)) > 0.01 * math.exp(-bound):
        found += 1
        power *= -bound / found
        total += power
    return found


def draw(text):
    figure = new_figure(310)
    plot = axes(figure, 48, 44, 300, 216, xscale="log", yscale="log")
    for d, colour, marker in ((64, FIRST, "o"), (16, SECOND, "s"), (4, THIRD, "^")):
        counts = [math.comb(d + degree(bound), degree(bound)) for bound in BOUNDS]
        plot.plot(BOUNDS, counts, marker=marker, color=colour, clip_on=False)
        label(plot, (BOUNDS[-1], counts[-1]), f"$d_k = {d}$", colour, offset=(9, 0))
    plot.plot([BOUNDS[0], BOUNDS[-1]], [1e6, 1e6], color=SOFT, linewidth=1, dashes=(6, 2))
    label(plot, (BOUNDS[0], 1e6), text["tokens"], SOFT, offset=(4, 10))
    plot.set_ylim(1, 1e26)
    ticks(plot, x=BOUNDS)
    powers(plot, [0, 6, 12, 18, 24])
    plot.grid(axis="y")
    name_axes(plot, text["x"], text["y"])
    return figure
