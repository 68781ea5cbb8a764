"""Heads as blocks: columns on the way in, rows on the way out."""

import torch

from attnref import MultiHeadAttention
from docs.figures.drawing import FIRST, SECOND, SMALL, THIRD, canvas, new_figure
from docs.figures.matrices import ALL, Fill, product

TEXT = {
    "pt": {
        "in": "1. Entrada: cada cabeça é um bloco de colunas",
        "attend": "2. Cada cabeça calcula a sua própria atenção",
        "out": "3. Saída: o bloco de cada cabeça encontra só as suas linhas",
        "joined": "$[O_1|O_2|O_3]$",
        "result": "$∑ O_i W_O^{(i)}$",
        "attention": "de $Q_i$, $K_i$, $V_i$ sai $O_i$, para $i = 1, 2, 3$",
    },
    "en": {
        "in": "1. In: each head is a block of columns",
        "attend": "2. Each head computes an attention of its own",
        "out": "3. Out: each head's block multiplies only its own rows",
        "joined": "$[O_1|O_2|O_3]$",
        "result": "$∑ O_i W_O^{(i)}$",
        "attention": "from $Q_i$, $K_i$, $V_i$ comes $O_i$, for $i = 1, 2, 3$",
    },
}

N, D_MODEL, HEADS, CELL = 4, 6, 3, 16
COLOURS = ((FIRST, 0.35), (SECOND, 0.3), (THIRD, 0.15))


def draw(text):
    generator = torch.Generator().manual_seed(0)
    layer = MultiHeadAttention(D_MODEL, HEADS, bias=False, generator=generator)
    x = torch.randn(N, D_MODEL, generator=generator)
    d_k = layer.head_dim
    w_q, w_o = layer.query_proj.weight.T, layer.out_proj.weight.T  # as the formula writes them
    heads = [
        proj(x).view(N, HEADS, d_k).transpose(0, 1)
        for proj in (layer.query_proj, layer.key_proj, layer.value_proj)
    ]  # (HEADS, N, d_k) each
    answers = layer.attention(*heads)  # (HEADS, N, d_v)
    joined = torch.cat(list(answers), dim=-1)  # (N, HEADS d_v)
    # That joining is adding is what the drawing says.
    added = sum(head @ rows for head, rows in zip(answers, w_o.split(d_k), strict=True))
    torch.testing.assert_close(joined @ w_o, layer(x))
    torch.testing.assert_close(added, layer(x))

    blocks = [slice(d_k * head, d_k * (head + 1)) for head in range(HEADS)]
    looks = list(zip(blocks, COLOURS, strict=True))
    columns = [Fill(ALL, block, alpha, colour) for block, (colour, alpha) in looks]
    rows = [Fill(block, ALL, alpha, colour) for block, (colour, alpha) in looks]

    figure = new_figure(420)
    plane = canvas(figure)
    for top, key in ((14, "in"), (196, "attend"), (250, "out")):
        plane.text(8, top, text[key], va="center", fontweight="semibold")
    plane.text(24, 218, text["attention"], va="center", fontsize=SMALL)

    def number(left, top, across):
        for head in range(HEADS):
            place = CELL * d_k * (head + 0.5)
            x, y = (left + place, top) if across else (left, top + place)
            plane.text(x, y, str(head + 1), ha="center", va="center", fontsize=SMALL)

    width = D_MODEL * CELL
    queries = "$[Q_1|Q_2|Q_3]$"
    product(
        plane,
        24,
        100,
        ("$X$", x),
        ("$W_Q$", w_q, *columns),
        (queries, layer.query_proj(x), *columns),
        cell=CELL,
    )
    number(24 + width + 26, 100, across=True)
    number(24 + 2 * (width + 26), 100, across=True)
    product(
        plane,
        24,
        336,
        (text["joined"], joined, *columns),
        ("$W_O$", w_o, *rows),
        (text["result"], joined @ w_o),
        cell=CELL,
    )
    number(24, 336, across=True)
    number(24 + width + 26 + width / 2, 336 - width / 2, across=False)
    return figure
