"""A layout of blocks, and how the blocks that one row sees are laid side by side."""

import torch
from matplotlib.patches import Rectangle

from attnref import masks
from docs.figures.drawing import SECOND, SHADE, SMALL, STRONGEST, arrow, box, canvas, new_figure
from docs.figures.matrices import mask

TEXT = {
    "pt": {
        "layout": "blocos de consultas ↓, de chaves →",
        "row": "a linha {row} vê os blocos",
        "gathered": "lado a lado: uma atenção densa, sem máscara",
    },
    "en": {
        "layout": "blocks of queries ↓, of keys →",
        "row": "row {row} sees the blocks",
        "gathered": "side by side: a dense attention, without a mask",
    },
}

BLOCKS, CELL, ROW, GATHERED = 12, 17, 7, 38


def draw(text):
    layout = (
        masks.bigbird(
            BLOCKS * 2,
            block_size=2,
            window_blocks=3,
            random_blocks=1,
            global_blocks=1,
            generator=torch.Generator().manual_seed(4),
        ).block_summary(2)
        > 0
    )  # (12, 12)
    figure = new_figure(24 + BLOCKS * CELL + 108)
    plane = canvas(figure)
    left, top = 8, 24
    small = {"va": "center", "fontsize": SMALL}
    plane.text(left, 12, text["layout"], **small)
    mask(plane, left, top, layout, CELL)
    look = {"fill": False, "edgecolor": SECOND, "linewidth": 2, "clip_on": False}
    plane.add_patch(Rectangle((left, top + ROW * CELL), BLOCKS * CELL, CELL, **look))
    seen = layout[ROW].nonzero().flatten().tolist()
    side = left + BLOCKS * CELL + 14
    plane.text(side, top + (ROW + 0.5) * CELL, text["row"].format(row=ROW), color=SECOND, **small)
    below = top + BLOCKS * CELL + 34
    arrow(plane, (left + 60, top + BLOCKS * CELL + 6), (left + 60, below - 6))
    for index, block in enumerate(seen):
        x = left + index * GATHERED
        box(plane, x, below, GATHERED, 26, fill=SHADE, alpha=STRONGEST)
        plane.text(x + GATHERED / 2, below + 13, str(block), ha="center", va="center")
    plane.text(left, below + 46, text["gathered"], **small)
    return figure
