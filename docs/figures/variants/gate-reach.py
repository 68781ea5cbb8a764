"""What a head can answer in two dimensions: a softmax, and what gates make of it."""

import torch
from matplotlib.patches import Polygon

from attnref import scaled_dot_product_attention
from docs.figures.drawing import (
    FIRST,
    INK,
    SECOND,
    SHADE,
    SMALL,
    SOFT,
    THIRD,
    axes,
    canvas,
    label,
    name_axes,
    new_figure,
    ticks,
)

TEXT = {
    "pt": {
        "softmax": "softmax: dentro da área dos valores",
        "headwise": "uma porta por cabeça: mais perto de 0",
        "elementwise": "uma porta por componente: em outra direção também",
        "values": "valores",
        "nothing": "nada",
        "x": "primeira componente",
        "y": "segunda componente",
    },
    "en": {
        "softmax": "softmax: inside the area of the values",
        "headwise": "a gate per head: nearer to 0",
        "elementwise": "a gate per component: in another direction, too",
        "values": "values",
        "nothing": "nothing",
        "x": "first component",
        "y": "second component",
    },
}

VALUES = [[1.6, 2.6], [2.2, 1.5], [3.4, 1.7], [3.7, 2.7], [2.7, 3.4]]  # around their middle
QUERIES = 40


def draw(text):
    generator = torch.Generator().manual_seed(3)
    value = torch.tensor(VALUES, dtype=torch.float64)
    key = torch.randn(len(VALUES), 2, generator=generator, dtype=torch.float64)
    query = 3 * torch.randn(QUERIES, 2, generator=generator, dtype=torch.float64)
    answers = scaled_dot_product_attention(query, key, value)  # (QUERIES, 2)
    gates = torch.sigmoid(2 * torch.randn(QUERIES, 2, generator=generator, dtype=torch.float64))

    figure = new_figure(412)
    plane = canvas(figure)
    plot = axes(figure, 44, 96, 360, 260, xlim=(-0.15, 4.05), ylim=(-0.15, 3.75))
    hull = {"facecolor": SHADE, "alpha": 0.18, "edgecolor": "none"}
    plot.add_patch(Polygon(value.tolist(), **hull))
    plot.plot(*value.T, linestyle="none", marker="s", markersize=7, color=INK)
    points = (
        ("softmax", answers, FIRST, "o"),
        ("headwise", gates[:, :1] * answers, SECOND, "x"),
        ("elementwise", gates * answers, THIRD, "+"),
    )
    for line, (name, drawn, colour, marker) in enumerate(points):
        look = {"linestyle": "none", "marker": marker, "color": colour, "markersize": 5}
        plot.plot(*drawn.T, **look)
        height = 16 + 22 * line
        plane.plot([14], [height], **look)
        plane.text(28, height, text[name], color=colour, va="center", fontsize=SMALL)
    plot.plot([0], [0], marker="s", markersize=7, color=SOFT, fillstyle="none")
    label(plot, (0, 0), text["nothing"], SOFT, offset=(10, -2), halo=True)
    label(plot, (3.7, 2.7), text["values"], offset=(-4, 14), side="right")
    ticks(plot, x=range(5), y=range(4))
    name_axes(plot, text["x"], text["y"])
    return figure
