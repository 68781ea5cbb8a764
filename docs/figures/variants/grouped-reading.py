"""One decoding step with grouped queries: keys read once a query head, or once a group."""

import torch

from attnref import MultiHeadAttention
from docs.figures.drawing import INK, SHADE, SMALL, SOFT, STRONGEST, arrow, box, canvas, new_figure

TEXT = {
    "pt": {
        "repeated": "repetidas: cada consulta relê as suas chaves",
        "stacked": "empilhadas: as consultas leem juntas",
        "query": "consultas",
        "keys": "chaves da cabeça {head}",
        "read": "lidas {count} vezes ao todo",
    },
    "en": {
        "repeated": "repeated: each query reads its keys again",
        "stacked": "stacked: the queries read together",
        "query": "queries",
        "keys": "keys of head {head}",
        "read": "read {count} times in all",
    },
}

SMALL_BOX, LONG, STEP = 18, 150, 24


def draw(text):
    layer = MultiHeadAttention(16, 4, num_kv_heads=2, generator=torch.Generator().manual_seed(0))
    heads, key_heads = layer.num_heads, layer.num_kv_heads
    group = heads // key_heads
    figure = new_figure(312)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}

    def keys(y, height, head):
        box(plane, 190, y, LONG, height, fill=SHADE, alpha=0.18, edge=INK)
        name = text["keys"].format(head=head + 1)
        plane.text(190 + LONG / 2, y + height / 2, name, ha="center", **small)

    def query(y):
        box(plane, 60, y, SMALL_BOX, SMALL_BOX, fill=SHADE, alpha=STRONGEST, edge=INK)

    plane.text(8, 14, text["repeated"], **small)
    for head in range(heads):
        y = 32 + STEP * head
        query(y)
        arrow(plane, (60 + SMALL_BOX + 4, y + 9), (186, y + 9))
        keys(y, SMALL_BOX, head // group)
    plane.text(190, 32 + STEP * heads + 8, text["read"].format(count=heads), color=SOFT, **small)
    top = 176
    plane.text(8, top, text["stacked"], **small)
    for index in range(key_heads):
        y = top + 18 + (group * SMALL_BOX + 12) * index
        for member in range(group):
            query(y + SMALL_BOX * member)
        middle = y + group * SMALL_BOX / 2
        arrow(plane, (60 + SMALL_BOX + 4, middle), (186, middle))
        keys(middle - SMALL_BOX / 2, SMALL_BOX, index)
    below = top + 18 + (group * SMALL_BOX + 12) * key_heads + 8
    plane.text(190, below, text["read"].format(count=key_heads), color=SOFT, **small)
    plane.text(8, below, text["query"], color=SOFT, **small)
    return figure
