"""Operations of the parts of a layer against the length of the text, and where they cross."""

from bisect import bisect_left

from attnref import cost
from docs.figures.drawing import (
    FIRST,
    INK,
    SECOND,
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
        "x": "número de tokens $n$",
        "y": "operações em produtos, uma camada com $D = 768$",
        "core": "escores e\nmédias $4n^2D$",
        "both": "projeções e\nfeed-forward $24nD^2$",
        "projections": "projeções $8nD^2$",
    },
    "en": {
        "x": "number of tokens $n$",
        "y": "operations in products, one layer with $D = 768$",
        "core": "scores and\naverages $4n^2D$",
        "both": "projections and\nfeed-forward $24nD^2$",
        "projections": "projections $8nD^2$",
    },
}

WIDTH, HEADS = 768, 12
LENGTHS = [2**power for power in range(5, 17)]


def parts(n):
    """Operations of the core, of all that is around it in a layer, of the projections."""
    d = WIDTH // HEADS
    sizes = cost.Sizes(n=n, m=n, d_k=d, d_v=d, num_heads=HEADS)
    projections = cost.multihead(sizes, WIDTH, cost.Cost())
    hidden = cost.feedforward(n, WIDTH, 4 * WIDTH)
    costs = cost.of("plain", sizes), projections + hidden, projections
    return [spent.operations.matmul for spent in costs]


def crossing(part):
    """The first length at which the core costs as much as another part."""
    lengths = range(1, 10 * WIDTH)
    return lengths[bisect_left(lengths, True, key=lambda n: parts(n)[0] >= parts(n)[part])]


def draw(text):
    figure = new_figure(360)
    plot = axes(figure, 48, 44, 236, 262, xscale="log", yscale="log", xlim=(32, 65536))
    lines = zip(*map(parts, LENGTHS), strict=True)
    looks = {
        "core": (FIRST, (None, None), 0),
        "both": (SECOND, (6, 2), 8),
        "projections": (THIRD, (1.5, 1.5), -8),
    }
    for operations, (key, (colour, dashes, up)) in zip(lines, looks.items(), strict=True):
        plot.plot(LENGTHS, operations, color=colour, dashes=dashes)
        label(plot, (LENGTHS[-1], operations[-1]), text[key], colour, offset=(7, up))
    for part, name in ((2, "$n = 2D$"), (1, "$n = 6D$")):
        n = crossing(part)
        operations = parts(n)[part]
        plot.plot([n], [operations], "o", color=INK)
        plot.plot([n, n], [1e6, operations], color=INK, linewidth=1, dashes=(1, 2))
        label(
            plot,
            (n, 2.2e6),
            name,
            offset=(-5, 0) if part == 2 else (5, 0),
            side="right" if part == 2 else "left",
        )
    plot.set_ylim(1e6, 6e13)
    plot.grid(axis="y")
    ticks(plot, x=[32, 512, 8192])
    powers(plot, range(6, 14))
    name_axes(plot, text["x"], text["y"])
    return figure
