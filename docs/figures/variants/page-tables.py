"""Three moments of a cache in pages: a fork, the copy before a write, and pages found again."""

import torch

from attnref import PagedCache
from docs.figures.drawing import GRID, INK, SHADE, SMALL, SOFT, STRONGEST, box, canvas, new_figure

TEXT = {
    "pt": {
        "forked": "B se separa de A: as mesmas páginas nas duas tabelas",
        "written": "B escreve: a página incompleta é copiada antes",
        "found": "A e B terminaram; D começa como A e acha uma página cheia",
        "table": "tabela de {name}",
        "page": "página",
        "legend": "Cor forte: tokens de duas tabelas. Fraca: de uma.",
        "more": "Só contorno: em nenhuma tabela, mas ainda conhecida.",
    },
    "en": {
        "forked": "B forks from A: the same pages in both tables",
        "written": "B writes: the page that is not full is copied first",
        "found": "A and B have ended; D begins like A and finds a full page",
        "table": "table of {name}",
        "page": "page",
        "legend": "Strong colour: tokens of two tables. Faint: of one.",
        "more": "Outline only: in no table, but still known.",
    },
}

PAGES, SIZE, CELL, GAP = 8, 4, 11, 6
LEFT, PANEL = 8, 128


def draw(text):
    figure = new_figure(3 * PANEL + 44)
    plane = canvas(figure)
    cache = PagedCache(PAGES, SIZE)
    ids = [*range(10)]

    def add(name, tokens):
        rows = torch.zeros(1, len(tokens), 1)
        tables[name].append(rows, rows, tokens)

    tables = {"A": cache.start(ids), "C": cache.start()}
    for first in (0, 4, 8):  # in turn, so that the pages of one text are no neighbours
        add("A", ids[first : first + 4])
        add("C", [100 + first] * min(4, 10 - first))
    tables["B"] = tables["A"].fork()
    _panel(plane, text, "forked", 0, cache, tables, known=())
    add("B", [55])
    _panel(plane, text, "written", PANEL, cache, tables, known=())

    full = cache.block_table([tables["A"]])[0][0, : len(ids) // SIZE].tolist()
    for name in "AB":
        tables.pop(name).free()
    prompt = [*ids[:6], 77, 78]
    tables["D"] = cache.start(prompt)
    add("D", prompt[tables["D"].length :])
    _panel(plane, text, "found", 2 * PANEL, cache, tables, known=full)
    small = {"va": "center", "fontsize": SMALL, "color": SOFT}
    plane.text(LEFT, 3 * PANEL + 10, text["legend"], **small)
    plane.text(LEFT, 3 * PANEL + 28, text["more"], **small)
    return figure


def _panel(plane, text, title, top, cache, tables, known):
    """The tables, and below them the pool: the tokens of each page, and how many tables have it."""
    small = {"va": "center", "fontsize": SMALL}
    plane.text(LEFT, top + 14, text[title], **small)
    held = [[0, 0] for _ in range(PAGES)]
    shown = sorted(tables)
    for place, name in enumerate(shown):
        table, lengths = cache.block_table([tables[name]])
        x = LEFT + place * (400 // len(shown))
        label = text["table"].format(name=name)
        plane.text(x, top + 40, label, color=SOFT, **small)
        for entry, page in enumerate(table[0].tolist()):
            box(plane, x + 17 * entry, top + 50, 17, 17)
            plane.text(x + 17 * entry + 8.5, top + 59, str(page), ha="center", **small)
            tokens = min(SIZE, int(lengths[0]) - entry * SIZE)
            held[page] = [max(held[page][0], tokens), held[page][1] + 1]
    for page, (tokens, users) in enumerate(held):
        x = LEFT + page * (SIZE * CELL + GAP)
        for place in range(SIZE):
            look = {"edge": INK if users or page in known else GRID}
            if place < tokens:
                look |= {"fill": SHADE, "alpha": STRONGEST if users > 1 else 0.2}
            box(plane, x + place * CELL, top + 76, CELL, 16, **look)
        number = f"{text['page']} {page}" if page == 0 else str(page)
        plane.text(x + SIZE * CELL / 2, top + 103, number, ha="center", color=SOFT, **small)
