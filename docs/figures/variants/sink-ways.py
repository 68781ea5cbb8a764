"""Two kinds of sink: where the weight of one row goes, and what a cache that forgets shows."""

import torch

from attnref import attention_weights, masks
from docs.figures.drawing import SECOND, SHADE, SMALL, SOFT, STRONGEST, box, canvas, new_figure
from docs.figures.matrices import mask

TEXT = {
    "pt": {
        "plain": "softmax: as chaves dividem tudo",
        "learned": "com um sink aprendido",
        "kept": "com a primeira chave por sink",
        "forgotten": "e depois de esquecê-la",
        "seen": "o que se vê: 2 primeiros, 5 últimos",
        "sink": "sink",
        "first": "primeira",
    },
    "en": {
        "plain": "softmax: the keys share it all",
        "learned": "with a learned sink",
        "kept": "with the first key as a sink",
        "forgotten": "and once it is forgotten",
        "seen": "what is seen: first 2, last 5",
        "sink": "sink",
        "first": "first",
    },
}

WHOLE, HIGH = 196, 24  # pixels of a weight of 1, and of a bar
N, FIRST, WINDOW, CELL = 16, 2, 5, 11


def bar(plane, top, name, weights, taken=0.0, label=""):
    """One row's weights end to end, what a sink takes first."""
    left = 220.0
    plane.text(left, top - 10, name, va="center", fontsize=SMALL)
    if taken:
        box(plane, left, top, WHOLE * taken, HIGH, fill=SECOND, alpha=0.35)
        middle = left + WHOLE * taken / 2
        plane.text(middle, top + HIGH / 2, label, ha="center", va="center", fontsize=SMALL)
    left += WHOLE * taken
    for weight in weights:
        box(plane, left, top, WHOLE * weight, HIGH, fill=SHADE, alpha=STRONGEST / 2)
        left += WHOLE * weight


def draw(text):
    generator = torch.Generator().manual_seed(0)
    query, keys = torch.randn(1, 8, generator=generator), torch.randn(5, 8, generator=generator)
    plain = attention_weights(query, keys)[0]
    learned = attention_weights(query, keys, sink=2.5)[0]
    early = query * 10 / query.square().sum()  # a score of 10 / √8, whatever the query
    kept = attention_weights(query, torch.cat([early, keys]))[0].tolist()

    figure = new_figure(262)
    plane = canvas(figure)
    plane.text(4, 14, text["seen"], va="center", fontsize=SMALL)
    window = masks.sliding_window(N, window=WINDOW, is_causal=True)
    rule = masks.causal(N) & (window | masks.padding([FIRST], N))
    mask(plane, 4, 30, rule.dense().reshape(N, N), CELL)
    plane.text(4, 30 + N * CELL + 14, f"{N} × {N}", va="center", fontsize=SMALL, color=SOFT)
    bar(plane, 30, text["plain"], plain.tolist())
    bar(plane, 90, text["learned"], learned.tolist(), 1 - float(learned.sum()), text["sink"])
    bar(plane, 150, text["kept"], kept[1:], kept[0], text["first"])
    bar(plane, 210, text["forgotten"], plain.tolist())
    return figure
