"""Four experiments that need no right answer, and which of them notice a fault of each family."""

import torch
from torch.nn import functional as F

import attnref
from attnref import masks
from docs.figures.drawing import SECOND, SHADE, SMALL, SOFT, box, canvas, new_figure

TEXT = {
    "pt": {
        "experiments": "1  valores todos 1: a saída é 1?"
        "|2  outra última palavra: as saídas anteriores ficam?"
        "|3  outra sequência no lote: esta fica?"
        "|4  última consulta sozinha: igual à da passagem inteira?",
        "correct_attention": "sem erro",
        "mask": "máscaras: uma chave a mais",
        "axis": "números: softmax no outro eixo",
        "batch": "formas: lote como sequência",
        "alignment": "cache: alinhada no início",
        "legend": "×: o experimento acusa o erro.",
    },
    "en": {
        "experiments": "1  values that are all 1: is the output 1?"
        "|2  a different last word: are earlier outputs unchanged?"
        "|3  another sequence in the batch: is this one unchanged?"
        "|4  the last query alone: same as in the whole pass?",
        "correct_attention": "no fault",
        "mask": "masks: one key too many",
        "axis": "numbers: softmax, other axis",
        "batch": "shapes: batch as sequence",
        "alignment": "cache: aligned at the start",
        "legend": "×: the experiment notices the fault.",
    },
}

B, N, D = 2, 5, 4
CELL, LEFT, TOP = 46, 222, 36


def causal_mask(query, key, extra=0):
    n, m = query.shape[-2], key.shape[-2]
    return torch.ones(n, m, dtype=torch.bool).tril(m - n + extra)


def correct_attention(query, key, value):
    mask = masks.causal(query.shape[-2], key.shape[-2], alignment="bottom-right")
    return attnref.scaled_dot_product_attention(query, key, value, mask)


def mask(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, causal_mask(query, key, extra=1))


def axis(query, key, value):
    scores = (query @ key.mT / D**0.5).masked_fill(~causal_mask(query, key), -torch.inf)
    return torch.softmax(scores, dim=-2) @ value


def batch(query, key, value):
    turned = (x.transpose(0, 1) for x in (query, key, value))
    return correct_attention(*turned).transpose(0, 1)


def alignment(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def run_experiments(attend):
    """For each experiment, whether the result is another than it must be."""
    query, key, value = torch.randn(3, B, N, D, generator=torch.Generator().manual_seed(0))
    whole = attend(query, key, value)
    last, first = torch.arange(N)[:, None] == N - 1, torch.arange(B)[:, None, None] == 0
    later = attend(*(x + last for x in (query, key, value)))
    other = attend(*(x + first for x in (query, key, value)))
    pairs = (
        (attend(query, key, torch.ones_like(value)), torch.ones_like(value)),
        (later[:, :-1], whole[:, :-1]),
        (other[1:], whole[1:]),
        (attend(query[:, -1:], key, value), whole[:, -1:]),
    )
    return [a.shape != b.shape or not torch.allclose(a, b, atol=1e-5) for a, b in pairs]


def draw(text):
    figure = new_figure(400)
    plane = canvas(figure)
    centred = {"ha": "center", "va": "center"}
    for column in range(4):
        plane.text(LEFT + CELL * (column + 0.5), TOP - 14, str(column + 1), **centred)
    for row, attend in enumerate((correct_attention, mask, axis, batch, alignment)):
        middle = TOP + CELL * (row + 0.5)
        plane.text(
            LEFT - 10, middle, text[attend.__name__], ha="right", va="center", fontsize=SMALL
        )
        for column, fails in enumerate(run_experiments(attend)):
            x, y = LEFT + CELL * column, TOP + CELL * row
            box(plane, x, y, CELL, CELL, fill=SHADE if fails else None, alpha=0.18, edge=SOFT)
            if fails:
                middle_x = x + CELL / 2
                plane.text(middle_x, middle, "×", color=SECOND, fontweight="semibold", **centred)
    for line, words in enumerate((*text["experiments"].split("|"), text["legend"])):
        plane.text(8, TOP + 5 * CELL + 26 + 22 * line, words, va="center", fontsize=SMALL)
    return figure
