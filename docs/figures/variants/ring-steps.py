"""A ring of four ranks step by step, and the pairs that each computes, in two layouts."""

from attnref import masks
from attnref.layouts import rank_positions
from docs.figures.drawing import INK, SECOND, SMALL, SOFT, arrow, canvas, new_figure
from docs.figures.matrices import mask

TEXT = {
    "pt": {
        "number": "número: o rank de onde vêm as chaves e os valores",
        "cell": "célula cheia: um par de consulta ↓ e chave → a calcular",
        "contiguous": "Partes contíguas",
        "zigzag": "Ziguezague",
        "step": "passo {step}",
        "rank": "rank {rank}",
        "slowest": "o mais lento em cada passo: {sum} pares",
    },
    "en": {
        "number": "number: the rank that the keys and values come from",
        "cell": "filled cell: a pair of query ↓ and key → to compute",
        "contiguous": "Contiguous parts",
        "zigzag": "Zigzag",
        "step": "step {step}",
        "rank": "rank {rank}",
        "slowest": "the slowest in each step: {sum} pairs",
    },
}

RANKS, N, CELL = 4, 16, 9
LEFT, COLUMN, ROW = 104, 82, 48
HEAD, PANEL = 48, 262


def draw(text):
    figure = new_figure(HEAD + 2 * PANEL)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    plane.text(8, 14, text["number"], color=SECOND, **small)
    plane.text(8, 32, text["cell"], **small)
    _panel(plane, text, "contiguous", HEAD)
    _panel(plane, text, "zigzag", HEAD + PANEL)
    return figure


def _panel(plane, text, layout, top):
    """What each rank computes in each step, and how many pairs the slowest of them has."""
    small, side = {"va": "center", "fontsize": SMALL}, CELL * N // RANKS
    allowed = masks.causal(N).dense()  # (N, N)
    parts = [rank_positions(N, ranks=RANKS, rank=rank, layout=layout) for rank in range(RANKS)]
    positions = [[i for part in ranges for i in part] for ranges in parts]
    plane.text(8, top + 12, text[layout], fontweight="semibold", va="center")
    slowest = [0] * RANKS
    for rank in range(RANKS):
        y = top + 42 + ROW * rank
        plane.text(8, y + 9, text["rank"].format(rank=rank), **small)
        ends = ", ".join(f"{part[0]}–{part[-1]}" for part in parts[rank])
        plane.text(8, y + 27, ends, color=SOFT, **small)
        for step in range(RANKS):
            x, source = LEFT + COLUMN * step, (rank - step) % RANKS
            if rank == 0:
                name = text["step"].format(step=step)
                plane.text(x + side / 2, top + 30, name, color=SOFT, ha="center", **small)
            tile = allowed[positions[rank]][:, positions[source]]
            mask(plane, x, y, tile, CELL)
            plane.text(x - 10, y + side / 2, str(source), color=SECOND, ha="center", **small)
            slowest[step] = max(slowest[step], int(tile.sum()))
            if step < RANKS - 1:
                _draw_hop(plane, x + side, y + side / 2, is_last=rank == RANKS - 1, top=top)
    total = " + ".join(map(str, slowest)) + f" = {sum(slowest)}"
    plane.text(8, top + 46 + ROW * RANKS, text["slowest"].format(sum=total), **small)


def _draw_hop(plane, x, y, *, is_last, top):
    """From a rank to the next one, in the next step; from the last one to the first."""
    width = COLUMN - CELL * N // RANKS
    start, end = (x + 3, y + 4), (x + width - 16, y + ROW - 6)
    if not is_last:
        arrow(plane, start, end)
        return
    up = ROW * (RANKS - 1)
    middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    plane.plot(*zip(start, middle, strict=True), color=INK, linewidth=1)
    arrow(plane, (middle[0], middle[1] - up - ROW), (end[0], end[1] - up - ROW))
