"""Latent attention in two orders: keys and values are made, or the query goes to the latents."""

from docs.figures.drawing import INK, SHADE, SMALL, SOFT, STRONGEST, arrow, box, canvas, new_figure

TEXT = {
    "pt": {
        "made": "feitos: cada cabeça lê no latente chaves e valores seus",
        "absorbed": "absorvidas: a consulta de cada cabeça vai até os latentes",
        "latents": "latentes",
        "keys": "chaves e valores",
        "queries": "consultas",
        "averages": "médias",
        "outputs": "saídas",
        "stay": "por token: {kept} números guardados, {made} feitos",
        "only": "por token: {kept} números guardados, nenhum feito",
    },
    "en": {
        "made": "made: each head reads its keys and values out of the latents",
        "absorbed": "absorbed: the query of each head goes to the latents",
        "latents": "latents",
        "keys": "keys and values",
        "queries": "queries",
        "averages": "averages",
        "outputs": "outputs",
        "stay": "per token: {kept} numbers kept, {made} made",
        "only": "per token: {kept} numbers kept, none made",
    },
}

HEADS, TOKENS, CELL = 3, 5, 16
D_C, D_K = 4, 2  # so that keys and values of all heads are three times as many numbers


def draw(text):
    figure = new_figure(352)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}

    def column(x, y, width, alpha):
        for token in range(TOKENS):
            box(plane, x, y + CELL * token, width, CELL, fill=SHADE, alpha=alpha, edge=INK)

    def draw_vector(x, y, width, alpha):
        box(plane, x, y, width, CELL, fill=SHADE, alpha=alpha, edge=INK)

    def name(x, y, word, **look):
        plane.text(x, y, text[word], ha="center", **small, **look)

    wide, narrow = CELL * D_C, CELL * 2 * D_K
    top = 44
    plane.text(8, 14, text["made"], **small)
    height = CELL * TOKENS
    column(12, top, wide, STRONGEST)
    name(12 + wide / 2, top + height + 14, "latents")
    for head in range(HEADS):
        x = 132 + (narrow + 10) * head
        column(x, top, narrow, 0.18)
    middle = top + height / 2
    arrow(plane, (12 + wide + 6, middle), (126, middle))
    plane.text(12 + wide + 26, middle - 12, "$U, W$", ha="center", **small)
    name(132 + (HEADS * (narrow + 10) - 10) / 2, top + height + 14, "keys")
    left = 132 + HEADS * (narrow + 10) + 18
    for head in range(HEADS):
        draw_vector(left + 12, top + 8 + 26 * head, CELL * D_K, 0.4)
    arrow(plane, (left + 6, middle), (left - 22, middle))
    name(left + 16, top + height + 14, "queries")
    made = HEADS * 2 * D_K
    plane.text(8, top + height + 38, text["stay"].format(kept=D_C, made=made), color=SOFT, **small)

    top = 226
    plane.text(8, top - 28, text["absorbed"], **small)
    middle = top + height / 2
    for head in range(HEADS):
        y = top + 8 + 26 * head
        draw_vector(12, y, CELL * D_K, 0.4)
        arrow(plane, (12 + CELL * D_K + 4, y + 8), (82, y + 8))
        draw_vector(86, y, wide, 0.4)
        draw_vector(274, y, wide, 0.4)
        arrow(plane, (274 + wide + 4, y + 8), (372, y + 8))
        draw_vector(376, y, CELL * D_K, 0.4)
    plane.text(63, top - 4, "$U^⊤$", ha="center", **small)
    plane.text(356, top - 4, "$W$", ha="center", **small)
    column(180, top, wide, STRONGEST)
    arrow(plane, (86 + wide + 4, middle), (176, middle))
    arrow(plane, (180 + wide + 4, middle), (270, middle))
    below = top + height + 14
    name(12 + CELL * D_K / 2 + 14, below, "queries")
    name(180 + wide / 2, below, "latents")
    name(274 + wide / 2, below, "averages")
    name(376 + CELL * D_K / 2 - 4, below, "outputs")
    plane.text(8, below + 24, text["only"].format(kept=D_C), color=SOFT, **small)
    return figure
