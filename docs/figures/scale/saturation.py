"""What the factor does to the weights: the largest one, and over how many keys they spread."""

from docs.figures.drawing import FIRST, SECOND, axes, name_axes, new_figure, ticks
from docs.figures.factor_sweep import marks, sweep

TEXT = {
    "pt": {
        "x": "fator de escala $c$, com $d_k = 64$ e 64 chaves",
        "largest": "maior peso, em média",
        "keys": "número efetivo de chaves $e^H$, em média",
        "none": "1 (nenhum)",
    },
    "en": {
        "x": "scale factor $c$, with $d_k = 64$ and 64 keys",
        "largest": "largest weight, on average",
        "keys": "effective number of keys $e^H$, on average",
        "none": "1 (none)",
    },
}


def draw(text):
    factors, spreads = sweep(highest=3)
    named = marks(text["none"])

    figure = new_figure(430)
    above = axes(figure, 50, 36, 352, 140, xscale="log", xlim=(factors[0], factors[-1]))
    below = axes(figure, 50, 228, 352, 140, xscale="log", yscale="log", sharex=above)
    largest = [spread.max_weight.mean().item() for spread in spreads]
    keys = [spread.effective_keys.mean().item() for spread in spreads]
    for plot, numbers, colour in ((above, largest, FIRST), (below, keys, SECOND)):
        plot.plot(factors, numbers, color=colour)
        plot.grid()
    above.set_ylim(0, 1.02)
    below.set_ylim(0.95, 70)
    ticks(above, x=named, y=[0, 0.25, 0.5, 0.75, 1])
    ticks(below, x=named, y=[1, 2, 4, 8, 16, 32, 64])
    name_axes(above, y=text["largest"])
    name_axes(below, text["x"], text["keys"])
    return figure
