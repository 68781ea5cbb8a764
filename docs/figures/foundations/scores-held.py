"""What nine ways of writing multi-head attention hold of the scores at one time."""

import torch

from docs.figures.drawing import GROUND, INK, SHADE, SMALL, SOFT, STRONGEST, box, canvas, new_figure

TEXT = {
    "pt": {
        "loop": "laço",
        "tensor": "empilhados, uma projeção, einsum, flex, camada com pesos",
        "kernel": "kernel fundido, com máscara ou causal; camada sem pesos",
        "one": "uma cabeça por vez: {count} números",
        "all": "todas ao mesmo tempo: {count} números",
        "block": "um bloco por vez; o maior tensor é $Q$, $K$, $V$: {count}",
        "head": "Um quadrado: os $b × n × n$ escores de uma cabeça; {sizes}.",
    },
    "en": {
        "loop": "loop",
        "tensor": "stacked, one projection, einsum, flex, layer with weights",
        "kernel": "fused kernel, with a mask or causal; layer without weights",
        "one": "one head at a time: {count} numbers",
        "all": "all at the same time: {count} numbers",
        "block": "a block at a time; the largest tensor is $Q$, $K$, $V$: {count}",
        "head": "A square: the $b × n × n$ scores of one head; {sizes}.",
    },
}

B, N, H, D = 2, 256, 8, 32  # the sizes of the program of the page
SIDE, STEP = 40, 51


def draw(text):
    qkv = torch.empty(3, B, H, N, D, device="meta")
    scores = qkv[0] @ qkv[1].mT  # (B, H, N, N)
    ways = (
        ("loop", "one", scores[:, 0].numel(), "first"),
        ("tensor", "all", scores.numel(), "every"),
        ("kernel", "block", qkv.numel(), "part"),
    )
    figure = new_figure(348)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    for index, (name, held, count, filled) in enumerate(ways):
        top = 14 + 106 * index
        plane.text(8, top, text[name], va="center", fontweight="semibold", fontsize=SMALL)
        for head in range(H):
            x, y = 8 + STEP * head, top + 14
            box(plane, x, y, SIDE, SIDE, fill=GROUND, edge=SOFT)
            if filled == "every" or (filled == "first" and head == 0):
                box(plane, x, y, SIDE, SIDE, fill=SHADE, alpha=STRONGEST, edge=INK)
            elif filled == "part" and head == 0:
                box(plane, x, y, SIDE / 4, SIDE / 4, fill=SHADE, alpha=STRONGEST, edge=INK)
        plane.text(8, top + 70, text[held].format(count=f"{count:,}"), **small)
    sizes = f"$b = {B}$, $n = {N}$, $h = {H}$"
    plane.text(8, 332, text["head"].format(sizes=sizes), color=SOFT, **small)
    return figure
