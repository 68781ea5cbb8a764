"""Two maps over the same keys, and their difference: what both weigh alike goes away."""

import torch

from attnref import attention_weights
from docs.figures.drawing import FIRST, INK, SECOND, axes, label, name_axes, new_figure, ticks

TEXT = {
    "pt": {
        "first": "primeiro mapa",
        "second": "segundo mapa, vezes $λ = 0.8$",
        "difference": "diferença: as outras chaves somam {rest:.2f} em vez de {before:.2f}",
        "needle": "a chave procurada: {weight:.2f}",
        "key": "chave",
    },
    "en": {
        "first": "first map",
        "second": "second map, times $λ = 0.8$",
        "difference": "difference: the other keys sum to {rest:.2f} instead of {before:.2f}",
        "needle": "the key that is sought: {weight:.2f}",
        "key": "key",
    },
}

KEYS, NEEDLE, D, FACTOR = 30, 17, 16, 0.8


def draw(text):
    generator = torch.Generator().manual_seed(12)

    def draw_normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    query, common = draw_normal(1, D), draw_normal(KEYS, D)
    key = common.clone()
    key[NEEDLE] += 0.5 * query[0]  # only the first map knows what is sought
    first = attention_weights(query, key, scale=0.35)[0]
    second = FACTOR * attention_weights(query, common + 0.25 * draw_normal(KEYS, D), scale=0.35)[0]
    difference = first - second

    others = torch.arange(KEYS) != NEEDLE
    figure = new_figure(456)
    rows = (("first", first), ("second", second), ("difference", difference))
    words = {"rest": float(difference[others].sum()), "before": float(first[others].sum())}
    for place, (name, weights) in enumerate(rows):
        top = 34 + 142 * place
        limits = (min(-0.06, float(difference.min()) - 0.01), float(first.max()) * 1.08)
        plot = axes(figure, 44, top, 364, 86, xlim=(-0.8, KEYS - 0.2), ylim=limits)
        colours = [SECOND if key == NEEDLE else FIRST for key in range(KEYS)]
        plot.bar(range(KEYS), weights, width=0.62, color=colours)
        plot.axhline(0, color=INK, linewidth=1)
        ticks(plot, x=range(0, KEYS, 5), y=(0, 0.2, 0.4))
        name_axes(plot, y=text[name].format(**words))
        if name != "second":
            said = text["needle"].format(weight=float(weights[NEEDLE]))
            label(plot, (NEEDLE - 0.4, float(weights[NEEDLE])), said, SECOND, offset=(0, 12))
    name_axes(plot, text["key"])
    return figure
