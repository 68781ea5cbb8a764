"""One query in the plane, five keys, three measures: which keys tie, and which one wins."""

import math

import torch

from attnref import similarity
from docs.figures.drawing import (
    FIRST,
    GRID,
    GROUND,
    INK,
    SECOND,
    SMALL,
    SOFT,
    axes,
    label,
    new_figure,
)

TEXT = {
    "pt": {
        "dot": "produto escalar",
        "cosine": "cosseno",
        "distance": "distância",
        "lines": "Chaves numa mesma linha empatam.\nPonto cheio, número em negrito: a vencedora.",
    },
    "en": {
        "dot": "dot product",
        "cosine": "cosine",
        "distance": "distance",
        "lines": "Keys on one line tie.\nFilled point, number in bold: the winner.",
    },
}

QUERY = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
ACROSS = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
# Each key, and where its number is.
KEYS = {(1, 0): (0, -14), (2, 0): (0, -14), (3, 3): (-8, 0), (0, 1): (-8, 0), (-1, 0): (0, -14)}
LINE = torch.linspace(-6, 6, 61, dtype=torch.float64)[:, None]
TURN = torch.linspace(0, 2 * math.pi, 73, dtype=torch.float64)[:, None]


def dot(query, key):
    return similarity.dot_scores(query, key, scale=1.0)


def distance(query, key):
    """Euclidean scores are minus the squared distance; a distance is easier to look at."""
    return (-similarity.euclidean_scores(query, key)).sqrt()


def equal_products(product):
    """The keys of one dot product: a line across the query, which has length 1."""
    return [product * QUERY + LINE * ACROSS]


def equal_cosines(cosine):
    """The keys of one cosine: two rays, one on either side of the query."""
    sine = math.sqrt(1 - cosine**2)
    return [(LINE + 6.02) * (cosine * QUERY + side * sine * ACROSS) for side in (-1, 1)]


def equal_distances(radius):
    """The keys of one distance: a circle about the query."""
    return [QUERY + radius * torch.cat([TURN.cos(), TURN.sin()], dim=-1)]


MEASURES = {
    "dot": (dot, max, equal_products, (-1, 0, 1, 2, 3)),
    "cosine": (similarity.cosine_scores, max, equal_cosines, (-0.8, -0.4, 0, 0.4, 0.8)),
    "distance": (distance, min, equal_distances, (0.5, 1, 1.5, 2, 3, 4)),
}


def draw(text):
    keys = torch.tensor(list(KEYS), dtype=torch.float64)  # (5, 2)
    figure = new_figure(206)
    for index, (name, (score, best, ties_at, levels)) in enumerate(MEASURES.items()):
        limits = {"xlim": (-1.7, 3.5), "ylim": (-1.3, 3.5)}
        plot = axes(figure, 6 + 138 * index, 30, 130, 120, **limits)
        plot.set_xticks([])
        plot.set_yticks([])
        plot.spines[:].set_color(GRID)
        plot.spines[:].set_visible(True)
        for level in levels:
            for line in ties_at(level):
                scores = score(QUERY, line)
                torch.testing.assert_close(scores, torch.full_like(scores, level))
                plot.plot(*line.T, color=SOFT, linewidth=0.7)
        plot.set_title(text[name], fontsize=SMALL, loc="left", color=INK)
        scores = score(QUERY, keys)[0].tolist()
        for (key, offset), number in zip(KEYS.items(), scores, strict=True):
            wins = math.isclose(number, best(scores), abs_tol=1e-9)
            plot.plot([0, key[0]], [0, key[1]], color=FIRST, linewidth=1.2)
            plot.plot(*key, "o", color=FIRST, markerfacecolor=FIRST if wins else GROUND)
            written = f"{round(number, 2) + 0.0:.2g}".replace("-", "−")
            side = "right" if offset[0] else "center"
            label(plot, key, written, offset=offset, side=side, bold=wins, halo=True)
        style = {"arrowstyle": "-|>", "color": SECOND, "linewidth": 3, "shrinkA": 0, "shrinkB": 3}
        plot.annotate("", QUERY[0], (0, 0), arrowprops=style)
        label(plot, (0.5, 0), "$q$", SECOND, offset=(0, 11), side="center", halo=True)
    for line, words in enumerate(text["lines"].split("\n")):
        place = (6 / 420, (34 - 16 * line) / 206)
        figure.text(*place, words, fontsize=SMALL, va="center")
    return figure
