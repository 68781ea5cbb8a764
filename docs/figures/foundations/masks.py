"""Six masks side by side: a query a row, a key a column, filled where it may look."""

from attnref import masks
from docs.figures.drawing import SMALL, canvas, new_figure
from docs.figures.matrices import mask

TEXT = {
    "pt": {
        "causal": "causal",
        "padding": "preenchimento",
        "window": "janela",
        "prefix": "prefixo",
        "global": "janela e global",
        "packed": "empacotadas",
    },
    "en": {
        "causal": "causal",
        "padding": "padding",
        "window": "window",
        "prefix": "prefix",
        "global": "window and global",
        "packed": "packed",
    },
}

N, CELL, STEP = 12, 10, 146  # keys; pixels from cell to cell and from mask to mask


def draw(text):
    drawn = {
        "causal": masks.causal(N),
        "padding": masks.padding([8], N).expand((1, 1, N, N)),
        "window": masks.sliding_window(N, window=4, is_causal=True),
        "prefix": masks.prefix_lm(N, prefix=5),
        "global": masks.sliding_window(N, window=3) | masks.global_tokens(N, positions=[0]),
        "packed": masks.packed([5, 3, 4]),
    }
    figure = new_figure(312)
    plane = canvas(figure)
    for index, (name, rule) in enumerate(drawn.items()):
        left, top = 4 + STEP * (index % 3), 28 + 156 * (index // 3)
        plane.text(left, top - 12, text[name], va="center", fontsize=SMALL)
        mask(plane, left, top, rule.dense().reshape(N, N), CELL)
    return figure
