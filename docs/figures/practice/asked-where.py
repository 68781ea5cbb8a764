"""The formula step by step, with the shape that each step gives, and what is asked at it."""

import torch

from attnref import attention_weights, masks, scaled_dot_product_attention
from docs.figures.drawing import SMALL, SOFT, arrow, canvas, new_figure
from docs.figures.matrices import WHOLE, grid, mask

TEXT = {
    "pt": {
        "query": "Larguras e cabeças|Quantas cabeças, e de que largura?",
        "scores": "Escores e semelhança|Parecidos, ou só compridos?",
        "scale": "O fator de escala|Por que uma raiz?",
        "mask": "Lotes, comprimentos, máscaras|Quem pode olhar para quem?",
        "weights": "A softmax|Por que os pesos somam 1?",
        "output": "Paralelismo e custo|Quanto custa tudo isso?",
    },
    "en": {
        "query": "Widths and heads|How many heads, and how wide?",
        "scores": "Scores and similarity|Similar, or merely long?",
        "scale": "The scale factor|Why a root?",
        "mask": "Batches, lengths, masks|Who may look at whom?",
        "weights": "The softmax|Why do weights sum to 1?",
        "output": "Parallelism and cost|What does all this cost?",
    },
}

N, D, D_V, CELL, STEP = 5, 3, 2, 10, 76


def draw(text):
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, N, D, generator=generator)
    value = torch.randn(N, D_V, generator=generator)
    causal = masks.causal(N)
    scores = query @ key.mT
    steps = {
        "query": ("$Q$", query),
        "scores": ("$QK^⊤$", scores),
        "scale": ("$QK^⊤/√d_k$", scores / D**0.5),
        "mask": ("$M$", causal.dense()),
        "weights": ("$P$", attention_weights(query, key, causal)),
        "output": ("$O = PV$", scaled_dot_product_attention(query, key, value, causal)),
    }
    figure = new_figure(len(steps) * STEP)
    plane = canvas(figure)
    for number, (name, (formula, tensor)) in enumerate(steps.items()):
        middle = STEP * (number + 0.5)
        rows, columns = tensor.shape
        plane.text(84, middle - 8, formula, ha="right", va="center")
        shape = f"{rows} × {columns}"
        plane.text(84, middle + 12, shape, ha="right", va="center", fontsize=SMALL, color=SOFT)
        left, top = 122 - columns * CELL / 2, middle - rows * CELL / 2
        if name == "mask":
            mask(plane, left, top, tensor, CELL)
        else:
            grid(plane, left, top, (rows, columns), CELL, [WHOLE])
        title, question = text[name].split("|")
        plane.text(176, middle - 9, title, va="center", fontweight="semibold")
        plane.text(176, middle + 11, question, va="center", fontsize=SMALL)
        if number:
            arrow(plane, (122, middle - STEP + 28), (122, middle - 28))
    return figure
