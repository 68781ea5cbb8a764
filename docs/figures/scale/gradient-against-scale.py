"""How much gradient comes through: the trace of the Jacobian, and what reaches the query."""

import torch

from docs.figures.drawing import FIRST, SECOND, SHADE, axes, label, name_axes, new_figure, ticks
from docs.figures.factor_sweep import marks, sweep

TEXT = {
    "pt": {
        "x": "fator de escala $c$, com $d_k = 64$ e 64 chaves",
        "trace": "traço da jacobiana da softmax, em média",
        "gradient": "tamanho do gradiente que chega à consulta",
        "mean": "média",
        "median": "mediana",
        "half": "metade das\nconsultas",
        "none": "1 (nenhum)",
    },
    "en": {
        "x": "scale factor $c$, with $d_k = 64$ and 64 keys",
        "trace": "trace of the Jacobian of the softmax, on average",
        "gradient": "size of the gradient that reaches the query",
        "mean": "mean",
        "median": "median",
        "half": "half of the\nqueries",
        "none": "1 (none)",
    },
}


def draw(text):
    factors, spreads = sweep(highest=2)
    trace = [spread.jacobian_trace.mean().item() for spread in spreads]
    sizes = torch.stack([spread.query_gradient for spread in spreads])  # (factors, queries)
    # Far below the axis there are rounding errors only.
    shown = sizes.clamp(min=1e-3)
    lower, median, upper = shown.quantile(torch.tensor([0.25, 0.5, 0.75]), dim=-1)
    named = marks(text["none"])

    figure = new_figure(470)
    above = axes(figure, 50, 36, 352, 120, xscale="log", xlim=(factors[0], factors[-1]))
    below = axes(figure, 50, 208, 352, 200, xscale="log", yscale="log", sharex=above)
    above.plot(factors, trace, color=FIRST)
    below.fill_between(factors, lower, upper, color=SHADE, alpha=0.3, linewidth=0)
    below.plot(factors, median, color=FIRST)
    below.plot(factors, sizes.mean(-1), color=SECOND, dashes=(5, 2))
    label(below, (1.9, 3.3), text["mean"], SECOND, side="right")
    label(below, (0.95, 0.42), text["median"], FIRST, side="right")
    label(below, (1.3, 0.02), text["half"], side="right")
    above.set_ylim(0, 1.02)
    below.set_ylim(0.003, 6)
    ticks(above, x=named, y=[0, 0.25, 0.5, 0.75, 1])
    ticks(below, x=named, y=[0.01, 0.1, 1])
    for plot in (above, below):
        plot.grid()
    name_axes(above, y=text["trace"])
    name_axes(below, text["x"], text["gradient"])
    return figure
