"""The letters of one attention at their places: a score is where its query meets its key."""

import torch

from attnref import attention_weights, scaled_dot_product_attention
from docs.figures.drawing import SMALL, SOFT, arrow, canvas, new_figure
from docs.figures.matrices import Fill, grid

TEXT = {
    "pt": {
        "legend": "Cor forte: o que vale para a consulta $i$ e a chave $j$.",
        "sizes": "Aqui $n = {n}$, $m = {m}$, $d_k = {d_k}$, $d_v = {d_v}$.",
    },
    "en": {
        "legend": "Strong colour: what belongs to query $i$ and key $j$.",
        "sizes": "Here $n = {n}$, $m = {m}$, $d_k = {d_k}$, $d_v = {d_v}$.",
    },
}

N, M, D_K, D_V, CELL = 4, 6, 3, 2, 16
QUERY_I, KEY_J = 1, 3


def draw(text):
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(N, D_K, generator=generator), torch.randn(M, D_K, generator=generator)
    v = torch.randn(M, D_V, generator=generator)
    s, p = q @ k.T / D_K**0.5, attention_weights(q, k)
    o = scaled_dot_product_attention(q, k, v)
    row, column = (
        Fill(rows=slice(QUERY_I, QUERY_I + 1), alpha=0.35),
        Fill(columns=slice(KEY_J, KEY_J + 1), alpha=0.35),
    )
    value = Fill(rows=slice(KEY_J, KEY_J + 1), alpha=0.35)
    cell = Fill(slice(QUERY_I, QUERY_I + 1), slice(KEY_J, KEY_J + 1), 0.6)
    faint = Fill(rows=slice(QUERY_I, QUERY_I + 1))

    figure = new_figure(262)
    plane = canvas(figure)
    top = 126  # of the matrices with a row for each query
    width, height = M * CELL, N * CELL
    places = {  # left, top, what, fillings
        "$Q$": (42, top, q, (row,)),
        "$K^⊤$": (100, top - 10 - D_K * CELL, k.T, (column,)),
        "$S$": (100, top, s, (faint, cell)),
        "$P$": (258, top, p, (row, cell)),
        "$V$": (362, top - 10 - M * CELL, v, (value,)),
        "$O$": (362, top, o, (row,)),
    }
    centred = {"ha": "center", "va": "center"}
    for name, (left, upper, tensor, fills) in places.items():
        grid(plane, left, upper, tuple(tensor.shape), CELL, fills)
        rows, columns = tensor.shape
        below = upper + rows * CELL + 13
        if name in ("$K^⊤$", "$V$"):
            plane.text(left + columns * CELL + 12, upper + 8, name, **centred)
        else:
            middle = left + columns * CELL / 2 - (24 if name in ("$S$", "$P$") else 0)
            plane.text(middle, below, name, **centred)
    y, x = top + (QUERY_I + 0.5) * CELL, 100 + (KEY_J + 0.5) * CELL
    small = {"fontsize": SMALL, "va": "center"}
    plane.text(36, y, "$q_i$", ha="right", **small)
    plane.text(x, top - 22 - D_K * CELL, "$k_j$", ha="center", **small)
    plane.text(400, y, "$o_i$", **small)
    plane.text(400, top - 10 - (M - KEY_J - 0.5) * CELL, "$v_j$", **small)
    arrow(plane, (100 + width + 4, y), (254, y))
    plane.text(227, y - 12, "softmax", ha="center", **small)
    plane.text(x, top + height + 13, "$s_i_j$", ha="center", **small)
    plane.text(258 + (KEY_J + 0.5) * CELL, top + height + 13, "$p_i_j$", ha="center", **small)
    sizes = text["sizes"].format(n=N, m=M, d_k=D_K, d_v=D_V)
    plane.text(8, 230, sizes, color=SOFT, **small)
    plane.text(8, 250, text["legend"], **small)
    return figure
