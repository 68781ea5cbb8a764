"""The shapes of one attention, drawn from its matrices, and the way of one word through it."""

import torch
from drawing import DARKEST, GRID, SHADE, SMALL, SOFT, arrow, box, canvas, new

import attnref

TEXT = {
    "pt": {
        "sizes": "$n = {n}$ palavras, $d_{{model}} = {d_model}$, $d_k = {d_k}$, $d_v = {d_v}$",
        "project": "1. Projetar as palavras",
        "compare": "2. Comparar cada consulta com todas as chaves",
        "average": "3. Tomar a média dos valores",
        "softmax": "softmax",
        "word": "escuro: uma palavra; claro: tudo de que a sua resposta precisa",
    },
    "en": {
        "sizes": "$n = {n}$ words, $d_{{model}} = {d_model}$, $d_k = {d_k}$, $d_v = {d_v}$",
        "project": "1. Project the words",
        "compare": "2. Compare each query with all keys",
        "average": "3. Average the values",
        "softmax": "softmax",
        "word": "dark: one word; light: all that its answer needs",
    },
}

CELL, WORD = 12, 1  # a number's side in pixels; the word that is followed
LIGHT = 0.15


def draw(text):
    n, d_model, d_k, d_v = 6, 3, 2, 5
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n, d_model, generator=generator)
    w_q = torch.randn(d_model, d_k, generator=generator)
    w_k = torch.randn(d_model, d_k, generator=generator)
    w_v = torch.randn(d_model, d_v, generator=generator)
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    s = q @ k.T / d_k**0.5
    p = attnref.attention_weights(q, k)
    o = attnref.scaled_dot_product_attention(q, k, v)

    figure = new(664)
    plane = canvas(figure)

    def matrix(left, middle, name, tensor, row=None, ground=0.0):
        """Each number a cell; returns the right edge."""
        rows, columns = tensor.shape
        width, height = columns * CELL, rows * CELL
        top = middle - height / 2
        if ground:
            box(plane, left, top, width, height, fill=SHADE, alpha=ground, edge=None)
        if row is not None:
            box(plane, left, top + row * CELL, width, CELL, fill=SHADE, alpha=DARKEST, edge=None)
        for line in range(1, rows):
            plane.plot([left, left + width], [top + line * CELL] * 2, color=GRID, linewidth=1)
        for line in range(1, columns):
            plane.plot([left + line * CELL] * 2, [top, top + height], color=GRID, linewidth=1)
        box(plane, left, top, width, height)
        shape = f"{rows} × {columns}"
        centre = left + width / 2
        plane.text(centre, top - 10, name, ha="center", va="center")
        plane.text(
            centre, top + height + 11, shape, ha="center", va="center", fontsize=SMALL, color=SOFT
        )
        return left + width

    def product(left, middle, *factors):
        """Matrices with a sign between them; the sign before the last is that of equality."""
        for index, factor in enumerate(factors):
            if index:
                sign = "=" if index == len(factors) - 1 else "·"
                plane.text(left + 13, middle, sign, ha="center", va="center")
                left += 26
            left = matrix(left, middle, *factor)
        return left

    def heading(top, key):
        plane.text(8, top, text[key], va="center", fontweight="bold")

    heading(14, "project")
    product(24, 92, ("$X$", x, WORD), ("$W_Q$", w_q), ("$Q$", q, WORD))
    product(250, 92, ("$X$", x, None, LIGHT), ("$W_K$", w_k), ("$K$", k, None, LIGHT))
    product(24, 222, ("$X$", x, None, LIGHT), ("$W_V$", w_v), ("$V$", v, None, LIGHT))
    heading(306, "compare")
    scaled = "$S = QK^⊤/√d_k$"
    right = product(24, 384, ("$Q$", q, WORD), ("$K^⊤$", k.T, None, LIGHT), (scaled, s, WORD))
    arrow(plane, (right + 8, 384), (right + 70, 384))
    plane.text(right + 39, 376, text["softmax"], ha="center", fontsize=SMALL)
    matrix(right + 78, 384, "$P$", p, WORD)
    heading(468, "average")
    product(24, 546, ("$P$", p, WORD), ("$V$", v, None, LIGHT), ("$O$", o, WORD))
    sizes = text["sizes"].format(n=n, d_model=d_model, d_k=d_k, d_v=d_v)
    plane.text(8, 632, sizes, va="center", fontsize=SMALL)
    plane.text(8, 652, text["word"], va="center", fontsize=SMALL)
    return figure
