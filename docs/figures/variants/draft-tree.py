"""A tree of drafts, its positions and its mask, and what the cache keeps of it."""

import torch

from attnref import KVCache, masks
from docs.figures.drawing import GROUND, INK, SHADE, SMALL, SOFT, STRONGEST, box, canvas, new_figure
from docs.figures.matrices import Fill, grid, mask

TEXT = {
    "pt": {
        "words": ["gato", "dormiu", "é", "no", "bem", "preto", "chão"],
        "tree": "rascunhos e posições",
        "mask": "o que cada nó vê",
        "past": "no cache",
        "nodes": "nós",
        "position": "posição",
        "accepted": "preenchido: o caminho aceito",
        "before": "cache depois da passagem",
        "after": "cache depois de keep({path}, after={past})",
    },
    "en": {
        "words": ["cat", "sat", "is", "on", "down", "asleep", "the"],
        "tree": "drafts and positions",
        "mask": "what each node sees",
        "past": "in the cache",
        "nodes": "nodes",
        "position": "position",
        "accepted": "filled: the accepted path",
        "before": "cache after the pass",
        "after": "cache after keep({path}, after={past})",
    },
}

PARENTS, PAST, ACCEPTED = [-1, 0, 0, 1, 1, 2, 3], 5, [0, 1, 3]
HEIGHTS = [1.25, 0.5, 2, 0, 1, 2, 0]  # of the nodes in the drawing of the tree
CELL, LEFT = 22, 86


def draw(text):
    figure = new_figure(502)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    centred = {"ha": "center", **small}
    depths = (masks.tree(PARENTS).dense().sum(-1) - 1).tolist()

    def corner(node):
        return 22 + 100 * depths[node], 52 + 32 * HEIGHTS[node]

    width = 76
    plane.text(8, 14, text["tree"], va="center", fontweight="semibold")
    plane.text(412, 14, text["accepted"], ha="right", color=SOFT, **small)
    for depth in range(max(depths) + 1):
        plane.text(60 + 100 * depth, 38, f"{text['position']} {PAST + depth}", **centred)
    for node, parent in enumerate(PARENTS):
        x, y = corner(node)
        if parent >= 0:
            from_x, from_y = corner(parent)
            line = [from_x + width, x], [from_y + 11, y + 11]
            plane.plot(*line, color=INK, linewidth=2 if node in ACCEPTED else 1)
    for node, word in enumerate(text["words"]):
        x, y = corner(node)
        kept = node in ACCEPTED
        box(plane, x, y, width, 22, fill=SHADE if kept else GROUND, alpha=0.4 if kept else 1)
        plane.text(x + width / 2, y + 11, f"{node} {word}", **centred)

    top = 212
    plane.text(8, top - 44, text["mask"], va="center", fontweight="semibold")
    allowed = masks.tree(PARENTS, past=PAST).dense()
    mask(plane, LEFT, top, allowed, CELL)
    split = LEFT + PAST * CELL
    plane.plot([split, split], [top - 4, top + len(PARENTS) * CELL + 4], color=INK, linewidth=2)
    plane.text(LEFT + PAST * CELL / 2, top - 13, text["past"], **centred)
    for node, word in enumerate(text["words"]):
        plane.text(split + (node + 0.5) * CELL, top - 13, str(node), **centred)
        y = top + (node + 0.5) * CELL
        plane.text(LEFT - 8, y, f"{node} {word}", ha="right", **small)
        plane.text(split + len(PARENTS) * CELL + 10, y, str(PAST + depths[node]), **small)
    plane.text(412, top - 13, text["position"], ha="right", **small)

    # What is kept is read off a cache whose keys are the numbers of the nodes.
    cache = KVCache()
    numbers = torch.arange(-PAST, len(PARENTS)).double()[:, None]
    before = cache.append(numbers, numbers)[0].flatten().int().tolist()
    cache.keep(ACCEPTED, after=PAST)
    after = cache.append(numbers[:0], numbers[:0])[0].flatten().int().tolist()
    titles = text["before"], text["after"].format(path=ACCEPTED, past=PAST)
    for index, (title, held) in enumerate(zip(titles, (before, after), strict=True)):
        y = 418 + 54 * index
        plane.text(8, y - 14, title, **small)
        kept = [place for place, node in enumerate(held) if node in ACCEPTED]
        fills = [Fill(columns=slice(0, PAST))]
        fills += [Fill(columns=slice(place, place + 1), alpha=STRONGEST) for place in kept]
        grid(plane, 8, y, (1, len(held)), CELL, fills)
        for place, node in enumerate(held):
            if node >= 0:
                plane.text(8 + (place + 0.5) * CELL, y + CELL / 2, str(node), **centred)
    return figure
