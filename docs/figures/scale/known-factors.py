"""Factors of known models, each over the usual one for its width."""

from typing import Any

from attnref import scaling
from docs.figures.drawing import (
    FIRST,
    SECOND,
    SMALL,
    SOFT,
    axes,
    label,
    name_axes,
    new_figure,
    ticks,
)

TEXT = {
    "pt": {
        "x": "fator dividido por $1/√d_k$, eixo logarítmico",
        "none": "T5: nenhum",
        "yarn": "YaRN, 4 vezes",
        "mup": "µP, mais larga",
        "weaker": "mais plano",
        "sharper": "mais nítido",
    },
    "en": {
        "x": "factor divided by $1/√d_k$, logarithmic axis",
        "none": "T5: none",
        "yarn": "YaRN, 4 times",
        "mup": "µP, wider",
        "weaker": "flatter",
        "sharper": "sharper",
    },
}

MODELS = [  # d_k and the factor, from strong to weak
    ("none", 64, 1.0),
    ("DeepSeek-V3", 192, scaling.yarn(192, stretch=40)),
    ("gpt-oss", 64, scaling.yarn(64, stretch=32)),
    ("yarn", 128, scaling.yarn(128, stretch=4)),
    ("GPT-2", 64, 64**-0.5),
    ("Grok-1", 128, 0.08838834764831845),
    ("Gemma 2 27B", 128, 144**-0.5),
    ("Gemma 3 27B", 128, 168**-0.5),
    ("DeBERTa", 64, (3 * 64) ** -0.5),
    ("mup", 256, 8 / 256),
]


def draw(text):
    figure = new_figure(346)
    lines = (len(MODELS) - 0.5, -0.5)
    plot = axes(figure, 148, 34, 250, 256, xscale="log", xlim=(0.4, 10), ylim=lines)
    beside: dict[str, Any] = {
        "xycoords": ("axes fraction", "data"),
        "textcoords": "offset points",
        "va": "center",
        "fontsize": SMALL,
    }
    plot.axvline(1, color=SOFT, linewidth=1)
    for line, (name, d_k, factor) in enumerate(MODELS):
        ratio = factor / d_k**-0.5
        colour = FIRST if ratio >= 1 else SECOND
        plot.plot([1, ratio], [line, line], color=colour)
        plot.plot([ratio], [line], "o", color=colour, clip_on=False)
        for words, away in ((text.get(name, name), -44), (str(d_k), -8)):
            plot.annotate(words, (0, line), (away, 0), ha="right", **beside)
    ticks(plot, x=[0.5, 1, 2, 4, 8])
    plot.set_yticks([])
    plot.grid(axis="x")
    top = {"offset": (0, 14), "side": "center"}
    label(plot, (0.64, -0.5), text["weaker"], SECOND, **top)
    label(plot, (3, -0.5), text["sharper"], FIRST, **top)
    plot.annotate("$d_k$", (0, -0.5), (-16, 14), ha="center", **beside)
    name_axes(plot, text["x"])
    return figure
