"""The way through a layer of several heads: each tensor with its shape."""

import torch

import attnref
from docs.figures.drawing import GROUND, INK, SHADE, SMALL, SOFT, arrow, box, canvas, new_figure

TEXT = {
    "pt": {
        "words": "palavras $X$",
        "project": "três projeções",
        "cut": "cortar em cabeças",
        "weights": "pesos $P$",
        "compare": "comparar, softmax",
        "average": "média dos valores",
        "answers": "respostas $O$",
        "join": "juntar",
        "joined": "lado a lado",
        "back": "projetar de volta com $W_O$",
        "result": "resultado",
    },
    "en": {
        "words": "words $X$",
        "project": "three projections",
        "cut": "cut into heads",
        "weights": "weights $P$",
        "compare": "compare, softmax",
        "average": "average of the values",
        "answers": "answers $O$",
        "join": "join",
        "joined": "side by side",
        "back": "project back with $W_O$",
        "result": "result",
    },
}

WIDTH, HEIGHT, SHEET = 118, 40, 5  # a box in pixels, and how far the head behind it shows


def draw(text):
    n, d_model, h = 5, 12, 3
    d_k = d_model // h
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, d_model, generator=generator)
    w_q, w_k, w_v, w_o = torch.randn(4, d_model, d_model, generator=generator)

    def split(tensor):
        return tensor.view(n, h, d_k).transpose(0, 1)  # (h, n, d_k)

    q, k, v = split(x @ w_q), split(x @ w_k), split(x @ w_v)
    answers, weights, _ = attnref.attend(q, k, v)
    joined = answers.transpose(0, 1).reshape(n, h * d_k)

    figure = new_figure(590)
    plane = canvas(figure)

    def tensor_box(centre, top, name, tensor):
        """A box, or a sheet for each head, with name and shape."""
        sheets = tensor.shape[0] if tensor.dim() == 3 else 1
        for sheet in reversed(range(sheets)):
            x, y = centre - WIDTH / 2 + SHEET * sheet, top - SHEET * sheet
            box(plane, x, y, WIDTH, HEIGHT, fill=GROUND, edge=None)
            box(plane, x, y, WIDTH, HEIGHT, fill=SHADE, alpha=0.18, edge=INK)
        centred = {"ha": "center", "va": "center"}
        plane.text(centre, top + 13, name, **centred)
        plane.text(centre, top + 29, str(tuple(tensor.shape)), fontsize=SMALL, **centred)

    def note(y, key, x=222):
        plane.text(x, y, text[key], va="center", color=SOFT, fontsize=SMALL)

    left, middle, right = 66, 207, 348
    tensor_box(middle, 8, text["words"], x)
    for centre, name, made, heads in (
        (left, "Q", x @ w_q, q),
        (middle, "K", x @ w_k, k),
        (right, "V", x @ w_v, v),
    ):
        arrow(plane, (middle, 48), (centre, 92))
        tensor_box(centre, 92, f"$XW_{name}$", made)
        arrow(plane, (centre, 132), (centre, 168))
        tensor_box(centre, 178, f"${name}$", heads)
    note(62, "project", 300)
    note(148, "cut", 216)
    for centre in (left, middle):
        arrow(plane, (centre, 218), ((left + middle) / 2, 252))
    tensor_box((left + middle) / 2, 262, text["weights"], weights)
    note(231, "compare", 216)
    arrow(plane, ((left + middle) / 2, 302), (middle, 336))
    arrow(plane, (right, 218), (middle + 20, 336))
    tensor_box(middle, 346, text["answers"], answers)
    note(316, "average", 300)
    arrow(plane, (middle, 386), (middle, 424))
    note(405, "join")
    tensor_box(middle, 424, text["joined"], joined)
    arrow(plane, (middle, 464), (middle, 508))
    note(486, "back")
    tensor_box(middle, 508, text["result"], joined @ w_o)
    legend = f"$n = {n}$, $d_{{model}} = {d_model}$, $h = {h}$, $d_k = d_v = {d_k}$"
    plane.text(8, 576, legend, va="center", fontsize=SMALL)
    return figure
