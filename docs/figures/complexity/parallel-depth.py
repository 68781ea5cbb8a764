"""Attention and a recurrence: how many operations, and how many that wait for each other."""

from attnref import cost
from docs.figures.drawing import FIRST, SECOND, axes, label, name_axes, new_figure, powers, ticks

TEXT = {
    "pt": {
        "x": "número de palavras $n$",
        "work": "operações ao todo, com $d = 64$",
        "depth": "operações que esperam umas pelas outras",
        "attention": "atenção",
        "recurrence": "recorrência",
    },
    "en": {
        "x": "number of words $n$",
        "work": "operations in all, with $d = 64$",
        "depth": "operations that wait for one another",
        "attention": "attention",
        "recurrence": "recurrence",
    },
}

D = 64
LENGTHS = [2**power for power in range(2, 15)]


def tree(size):
    """Levels of a sum or a maximum of so many numbers, in pairs, then in pairs of pairs."""
    return (size - 1).bit_length()


def attention(n):
    work = cost.of("plain", cost.Sizes(n=n, m=n, d_k=D, d_v=D)).operations.total
    score = 1 + tree(D) + 1  # multiply, add up, scale
    weight = score + tree(n) + 2 + tree(n) + 1  # maximum, subtract and exponential, sum, divide
    return work, weight + 1 + tree(n)


def recurrence(n):
    """``state = tanh(W @ state + word)``, once for each word."""
    return n * (2 * D**2 + 2 * D), n * (1 + tree(D) + 2)


def draw(text):
    figure = new_figure(470)
    plots = [
        axes(figure, 48, top, 350, 156, xscale="log", yscale="log", xlim=(4, 16384))
        for top in (40, 256)
    ]
    for method, colour, dashes, key, places in (
        (attention, FIRST, (None, None), "attention", ((800, 4e9), (1024, 150))),
        (recurrence, SECOND, (6, 2), "recurrence", ((2000, 6e5), (500, 3e4))),
    ):
        numbers = zip(*map(method, LENGTHS), strict=True)
        for plot, counts, place in zip(plots, numbers, places, strict=True):
            plot.plot(LENGTHS, counts, color=colour, dashes=dashes)
            label(plot, place, text[key], colour, side="center")
    for plot, exponents in zip(plots, (range(3, 12, 2), range(1, 6)), strict=True):
        plot.grid(axis="y")
        ticks(plot, x=[4, 64, 1024, 16384])
        powers(plot, exponents)
    name_axes(plots[0], y=text["work"])
    name_axes(plots[1], text["x"], text["depth"])
    return figure
