"""Three ways to compare a query with keys in the plane, and which key wins by each."""

import torch
from drawing import FIRST, GRID, INK, SMALL, SOFT, axes, label, new

from attnref import similarity

TEXT = {
    "pt": {
        "dot": "produto escalar",
        "cosine": "cosseno",
        "distance": "distância",
        "lines": "Chaves numa mesma linha empatam. Cheia: a vencedora.",
    },
    "en": {
        "dot": "dot product",
        "cosine": "cosine",
        "distance": "distance",
        "lines": "Keys on one line tie. Filled: the key that wins.",
    },
}

QUERY = torch.tensor([[1.2, 0.6]], dtype=torch.float64)
KEYS = {"a": (2.6, -0.3), "b": (0.45, 0.25), "c": (1.1, 1.05)}


def distances(query, key):
    """Euclidean scores are minus half the squared distance; a distance is easier to look at."""
    return (-2 * similarity.euclidean_scores(query, key)).sqrt()


MEASURES = {
    "dot": (lambda q, k: similarity.dot_scores(q, k, scale=1.0), max, (-2, -1, 0, 1, 2, 3, 4)),
    "cosine": (similarity.cosine_scores, max, (-0.5, 0, 0.5, 0.8, 0.95)),
    "distance": (distances, min, (0.4, 0.8, 1.2, 1.6, 2.0)),
}


def draw(text):
    keys = torch.tensor(list(KEYS.values()), dtype=torch.float64)  # (3, 2)
    # Ends that no line passes through: a tie with a grid point would be decided by rounding.
    x, y = torch.linspace(-0.71, 3.03, 90), torch.linspace(-0.97, 1.93, 70)
    points = torch.cartesian_prod(x, y).double()  # (x y, 2)
    figure = new(226)
    for index, (name, (score, best, levels)) in enumerate(MEASURES.items()):
        plot = axes(figure, 6 + 138 * index, 30, 130, 101, xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        plot.set_xticks([])
        plot.set_yticks([])
        plot.spines[:].set_color(GRID)
        plot.spines[:].set_visible(True)
        field = score(QUERY, points).reshape(len(x), len(y)).T
        plot.contour(x, y, field, levels=levels, colors=SOFT, linewidths=1, linestyles="-")
        plot.annotate("", QUERY[0], (0, 0), arrowprops={"arrowstyle": "-|>", "color": INK})
        label(plot, (1.2, 0.2), "$q$", side="center")
        scores = dict(zip(KEYS, score(QUERY, keys)[0].tolist(), strict=True))
        winner = best(scores, key=scores.get)
        plot.set_title(text[name], fontsize=SMALL, loc="left", color=INK)
        for line, (key, place) in enumerate(KEYS.items()):
            wins = key == winner
            plot.plot(*place, "o", color=FIRST, markerfacecolor=FIRST if wins else "none")
            label(plot, place, key, offset=(-4, 12) if key == "b" else (6, 8), bold=wins)
            below = (4, -14 - 16 * line)
            corner = (plot.get_xlim()[0], plot.get_ylim()[0])
            label(plot, corner, f"{key}: {scores[key]:.2f}", offset=below, bold=wins)
    figure.text(6 / 420, 12 / 226, text["lines"], fontsize=SMALL, va="center")
    return figure
