"""Training, prefill and decoding: the scores that one pass computes, and what a token costs."""

import torch

from attnref import cost, masks
from docs.figures.drawing import GROUND, SMALL, SOFT, box, canvas, new_figure
from docs.figures.matrices import WHOLE, grid, mask

TEXT = {
    "pt": {
        "titles": "treinamento|prefill|decodificação",
        "passes": "ida e dois gradientes|uma passagem|um passo por linha",
        "bytes": "{count:.3g} MB por token",
        "intensity": "{count:.1f} op. por byte",
    },
    "en": {
        "titles": "training|prefill|decoding",
        "passes": "forward, two gradients|one pass|one step per row",
        "bytes": "{count:.3g} MB per token",
        "intensity": "{count:.1f} ops. per byte",
    },
}

# The layer of the page; the squares show CELLS tokens in the place of so many.
TOKENS, WIDTH, HEADS, HIDDEN, HALF = 4096, 4096, 32, 16_384, torch.float16
CELLS, CELL, PITCH = 8, 12, 16


def layer(n):
    """The last n of all tokens, through attention and feed-forward."""
    d = WIDTH // HEADS
    sizes = cost.Sizes(n=n, m=TOKENS, d_k=d, d_v=d, num_heads=HEADS, dtype=HALF)
    pairs = cost.allowed_pairs(n, TOKENS, window=(None, TOKENS - n))
    core = cost.of("fused", sizes, pairs=pairs)
    return cost.multihead(sizes, WIDTH, core) + cost.feedforward(n, WIDTH, HIDDEN, dtype=HALF)


def draw(text):
    figure = new_figure(230)
    plane = canvas(figure)
    lefts = (8, 156, 288)
    causal = masks.causal(CELLS).dense()
    for back in (2, 1):
        left, top = lefts[0] + 10 * back, 28 + 10 * (2 - back)
        box(plane, left, top, CELLS * CELL, CELLS * CELL, fill=GROUND, alpha=1)
    box(plane, lefts[0], 48, CELLS * CELL, CELLS * CELL, fill=GROUND, alpha=1)
    mask(plane, lefts[0], 48, causal, CELL)
    mask(plane, lefts[1], 48, causal, CELL)
    for step in range(CELLS):
        grid(plane, lefts[2], 28 + step * PITCH, (1, step + 1), CELL, [WHOLE])
    reading = layer(TOKENS)
    costs = (reading * 3, TOKENS), (reading, TOKENS), (layer(1), 1)
    titles, passes = text["titles"].split("|"), text["passes"].split("|")
    for left, title, what, (spent, tokens) in zip(lefts, titles, passes, costs, strict=True):
        plane.text(left, 12, title, va="center", fontweight="semibold")
        small = {"va": "center", "fontsize": SMALL}
        plane.text(left, 172, what, color=SOFT, **small)
        moved = spent.bytes_moved / tokens / 1e6
        plane.text(left, 194, text["bytes"].format(count=moved), **small)
        plane.text(left, 214, text["intensity"].format(count=spent.intensity), **small)
    return figure
