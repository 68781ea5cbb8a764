"""The shapes of one attention, drawn from its matrices, and the way of one word through it."""

import torch

import attnref
from docs.figures.drawing import SMALL, arrow, canvas, new_figure
from docs.figures.matrices import WHOLE, matrix, product, row

TEXT = {
    "pt": {
        "sizes": "$n = {n}$ palavras, $d_{{model}} = {d_model}$, $d_k = {d_k}$, $d_v = {d_v}$",
        "project": "1. Projetar as palavras",
        "compare": "2. Comparar cada consulta com todas as chaves",
        "average": "3. Tomar a média dos valores",
        "word": "Cor forte: uma palavra. Fraca: tudo de que a sua resposta precisa.",
    },
    "en": {
        "sizes": "$n = {n}$ words, $d_{{model}} = {d_model}$, $d_k = {d_k}$, $d_v = {d_v}$",
        "project": "1. Project the words",
        "compare": "2. Compare each query with all keys",
        "average": "3. Average the values",
        "word": "Strong colour: one word. Faint: all that its answer needs.",
    },
}

WORD = row(1)


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

    figure = new_figure(664)
    plane = canvas(figure)
    for top, key in ((14, "project"), (306, "compare"), (468, "average")):
        plane.text(8, top, text[key], va="center", fontweight="semibold")

    product(plane, 24, 92, ("$X$", x, WORD), ("$W_Q$", w_q), ("$Q$", q, WORD))
    product(plane, 250, 92, ("$X$", x, WHOLE), ("$W_K$", w_k), ("$K$", k, WHOLE))
    product(plane, 24, 222, ("$X$", x, WHOLE), ("$W_V$", w_v), ("$V$", v, WHOLE))

    scaled = "$S = QK^⊤/√d_k$"
    right = product(plane, 24, 384, ("$Q$", q, WORD), ("$K^⊤$", k.T, WHOLE), (scaled, s, WORD))
    arrow(plane, (right + 8, 384), (right + 70, 384))
    plane.text(right + 39, 376, "softmax", ha="center", fontsize=SMALL)
    matrix(plane, right + 78, 384, "$P$", p, WORD)

    product(plane, 24, 546, ("$P$", p, WORD), ("$V$", v, WHOLE), ("$O$", o, WORD))
    sizes = text["sizes"].format(n=n, d_model=d_model, d_k=d_k, d_v=d_v)
    plane.text(8, 632, sizes, va="center", fontsize=SMALL)
    plane.text(8, 652, text["word"], va="center", fontsize=SMALL)
    return figure
