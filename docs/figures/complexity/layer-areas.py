"""A layer as an area: tokens downwards, operations of each token across."""

from attnref import cost
from docs.figures.drawing import FIRST, SECOND, SHADE, SMALL, SOFT, box, canvas, new_figure

TEXT = {
    "pt": {
        "projections": "projeções",
        "feedforward": "feed-forward",
        "core": "miolo {share:.1%}",
        "legend": "Largura: operações por token. Altura: tokens. Área: a camada.",
    },
    "en": {
        "projections": "projections",
        "feedforward": "feed-forward",
        "core": "core {share:.1%}",
        "legend": "Width: operations per token. Height: tokens. Area: the layer.",
    },
}

D, HEADS, HIDDEN = 768, 12, 3072  # BERT-base
LENGTHS = {"$n = D/2$": D // 2, "$n = D$": D, "$n = 2D$": 2 * D}
ACROSS, DOWN = 12 / (D * D), 56 / D  # pixels for an operation of a token, and for a token


def products(n):
    """Products of projections, feed-forward and core, for each token."""
    sizes = cost.Sizes(n=n, m=n, d_k=D // HEADS, d_v=D // HEADS, num_heads=HEADS)
    parts = (
        cost.multihead(sizes, D, cost.Cost()),
        cost.feedforward(n, D, HIDDEN),
        cost.of("plain", sizes),
    )
    return [part.operations.matmul / n for part in parts]


def draw(text):
    figure = new_figure(326)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    top = 42
    for number, (name, n) in enumerate(LENGTHS.items()):
        counts, left, height = products(n), 8.0, n * DOWN
        plane.text(left, top - 12, name, **small)
        looks = ((SHADE, 0.18), (SHADE, 0.36), (SECOND, 0.5))
        for key, count, (fill, alpha) in zip(
            ("projections", "feedforward", "core"), counts, looks, strict=True
        ):
            width = count * ACROSS
            box(plane, left, top, width, height, fill=fill, alpha=alpha)
            if key == "core":
                share = text["core"].format(share=count / sum(counts))
                right = left + width
                plane.text(right, top - 12, share, ha="right", color=SECOND, **small)
            elif number == 1:
                plane.text(
                    left + width / 2, top + height / 2, text[key], ha="center", color=FIRST, **small
                )
            left += width
        top += height + 30
    plane.text(8, top - 12, text["legend"], color=SOFT, **small)
    return figure
