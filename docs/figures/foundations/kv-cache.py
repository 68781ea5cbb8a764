"""Decoding with a cache, step by step: what is kept, what is new, what is never read again."""

import torch

from attnref import KVCache, MultiHeadAttention
from docs.figures.drawing import INK, SHADE, SMALL, SOFT, STRONGEST, arrow, box, canvas, new_figure

TEXT = {
    "pt": {
        "step": "passo",
        "queries": "consultas",
        "cache": "chaves e valores no cache",
        "scores": "escores",
        "legend": "Cor forte: novo neste passo. Fraca: guardado. ×: não se lê mais.",
    },
    "en": {
        "step": "step",
        "queries": "queries",
        "cache": "keys and values in the cache",
        "scores": "scores",
        "legend": "Strong colour: new in this step. Faint: kept. ×: never read again.",
    },
}

STEPS, CELL, ROW = 6, 21, 38
QUERIES, KEYS, SCORES = 52, 214, 372


def draw(text):
    generator = torch.Generator().manual_seed(0)
    layer = MultiHeadAttention(8, 2, generator=generator)
    words = torch.randn(STEPS, 8, generator=generator)
    cache = KVCache()
    figure = new_figure(34 + STEPS * ROW + 36)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    for x, key in ((8, "step"), (QUERIES, "queries"), (KEYS, "cache")):
        plane.text(x, 14, text[key], **small)
    plane.text(412, 14, text["scores"], ha="right", **small)
    for step in range(STEPS):
        word = words[step : step + 1]
        kept = cache.length
        weights = layer.attend(word, is_causal=True, cache=cache).weights
        middle = 34 + (step + 0.5) * ROW
        top = middle - CELL / 2
        plane.text(8, middle, str(step + 1), va="center")
        for query in range(step):
            x = QUERIES + query * CELL
            box(plane, x, top, CELL, CELL, edge=SOFT)
            for ends in ((top + 4, top + CELL - 4), (top + CELL - 4, top + 4)):
                plane.plot([x + 4, x + CELL - 4], ends, color=SOFT, linewidth=1)
        x = QUERIES + step * CELL
        box(plane, x, top, CELL, CELL, fill=SHADE, alpha=STRONGEST, edge=INK)
        arrow(plane, (x + CELL + 3, middle), (KEYS - 3, middle))
        for key in range(cache.length):
            alpha = 0.18 if key < kept else STRONGEST
            x = KEYS + key * CELL
            box(plane, x, top, CELL, CELL, fill=SHADE, alpha=alpha, edge=INK)
        # one query by all keys, for one head
        scores = " × ".join(map(str, weights.shape[-2:]))
        plane.text(412, middle, scores, ha="right", **small)
    plane.text(8, 34 + STEPS * ROW + 20, text["legend"], **small)
    return figure
