"""Blockwise attention at work: one block of scores exists, and three numbers per query go on."""

from attnref import masks
from docs.figures.drawing import INK, SHADE, SMALL, SOFT, STRONGEST, arrow, box, canvas, new_figure
from docs.figures.matrices import Fill, grid

TEXT = {
    "pt": {
        "keys": "chaves, bloco a bloco →",
        "queries": "consultas",
        "carried": "cada consulta leva adiante",
        "maximum": "o maior escore $μ$",
        "total": "a soma $ℓ$",
        "sums": "a soma dos valores $a$",
        "output": "no fim da linha: $a/ℓ$",
        "now": "existe agora",
        "done": "calculado e esquecido",
        "later": "ainda por calcular",
        "skipped": "sem moldura: nunca calculado",
    },
    "en": {
        "keys": "keys, block by block →",
        "queries": "queries",
        "carried": "each query carries along",
        "maximum": "its largest score $μ$",
        "total": "the sum $ℓ$",
        "sums": "the sum of values $a$",
        "output": "at the end of a row: $a/ℓ$",
        "now": "exists now",
        "done": "computed and forgotten",
        "later": "still to come",
        "skipped": "without a frame: never computed",
    },
}

N, SIZE, CELL = 16, 4, 13
NOW = (2, 1)  # row of blocks, column of blocks


def draw(text):
    states = masks.causal(N).block_summary(SIZE)  # (4, 4): 0 where a block is empty
    figure = new_figure(340)
    plane = canvas(figure)
    left, top = 8, 44
    fills = []
    for row in range(N // SIZE):
        for column in range(N // SIZE):
            if states[row, column] and (row, column) <= NOW:
                alpha = STRONGEST if (row, column) == NOW else 0.18
                rows = slice(SIZE * row, SIZE * (row + 1))
                columns = slice(SIZE * column, SIZE * (column + 1))
                fills.append(Fill(rows, columns, alpha=alpha))
    grid(plane, left, top, (N, N), CELL, fills)
    side = SIZE * CELL
    for row in range(N // SIZE):
        for column in range(N // SIZE):
            if states[row, column]:
                box(plane, left + side * column, top + side * row, side, side, edge=INK)
    small = {"va": "center", "fontsize": SMALL}
    plane.text(left, 14, text["queries"] + " ↓", **small)
    plane.text(left, 31, text["keys"], **small)
    middle = top + side * (NOW[0] + 0.5)
    x = left + N * CELL + 26
    arrow(plane, (left + side * (NOW[1] + 1) + 3, middle), (x - 5, middle))
    plane.text(x, middle - 36, text["carried"], color=SOFT, **small)
    for index, key in enumerate(("maximum", "total", "sums")):
        plane.text(x, middle - 16 + 20 * index, text[key], **small)
    plane.text(x, middle + 48, text["output"], color=SOFT, **small)
    bottom = top + N * CELL + 12
    for index, (key, alpha) in enumerate((("now", STRONGEST), ("done", 0.18), ("later", None))):
        y = bottom + 19 * index
        box(plane, left, y, 13, 13, fill=SHADE if alpha else None, alpha=alpha)
        plane.text(left + 21, y + 7, text[key], **small)
    plane.text(left, bottom + 64, text["skipped"], **small)
    return figure
