"""Three ways to compare a query with keys in the plane, and which key wins by each."""

import math

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
ACROSS = torch.tensor([[-0.6, 1.2]], dtype=torch.float64)  # as long as the query, across it
LINE = torch.linspace(-4, 4, 41, dtype=torch.float64)[:, None]
TURN = torch.linspace(0, 2 * math.pi, 73, dtype=torch.float64)[:, None]


def dot(query, key):
    return similarity.dot_scores(query, key, scale=1.0)


def distance(query, key):
    """Euclidean scores are minus the squared distance; a distance is easier to look at."""
    return (-similarity.euclidean_scores(query, key)).sqrt()


def across_at(product):
    """The keys of one dot product: a line across the query."""
    return [product * QUERY / QUERY.square().sum() + LINE * ACROSS]


def rays_at(cosine):
    """The keys of one cosine: two rays, one on either side of the query."""
    sine = math.sqrt(1 - cosine**2)
    return [(LINE + 4.02) * (cosine * QUERY + side * sine * ACROSS) for side in (-1, 1)]


def circle_at(radius):
    """The keys of one distance: a circle about the query."""
    return [QUERY + radius * torch.cat([TURN.cos(), TURN.sin()], dim=-1)]


MEASURES = {
    "dot": (dot, max, across_at, (-2, -1, 0, 1, 2, 3, 4)),
    "cosine": (similarity.cosine_scores, max, rays_at, (-0.5, 0, 0.5, 0.8, 0.95)),
    "distance": (distance, min, circle_at, (0.4, 0.8, 1.2, 1.6, 2.0)),
}


def draw(text):
    keys = torch.tensor(list(KEYS.values()), dtype=torch.float64)  # (3, 2)
    figure = new(226)
    for index, (name, (score, best, ties_at, levels)) in enumerate(MEASURES.items()):
        plot = axes(figure, 6 + 138 * index, 30, 130, 101, xlim=(-0.71, 3.03), ylim=(-0.97, 1.93))
        plot.set_xticks([])
        plot.set_yticks([])
        plot.spines[:].set_color(GRID)
        plot.spines[:].set_visible(True)
        for level in levels:
            for line in ties_at(level):
                scores = score(QUERY, line)
                torch.testing.assert_close(scores, torch.full_like(scores, level))
                plot.plot(*line.T, color=SOFT, linewidth=1)
        plot.annotate("", QUERY[0], (0, 0), arrowprops={"arrowstyle": "-|>", "color": INK})
        label(plot, (1.2, 0.2), "$q$", side="center")
        scores = dict(zip(KEYS, score(QUERY, keys)[0].tolist(), strict=True))
        winner = best(scores, key=scores.get)
        plot.set_title(text[name], fontsize=SMALL, loc="left", color=INK)
        for row, (key, place) in enumerate(KEYS.items()):
            wins = key == winner
            plot.plot(*place, "o", color=FIRST, markerfacecolor=FIRST if wins else "none")
            label(plot, place, key, offset=(-4, 12) if key == "b" else (6, 8), bold=wins)
            corner = (plot.get_xlim()[0], plot.get_ylim()[0])
            below = (4, -14 - 16 * row)
            label(plot, corner, f"{key}: {scores[key]:.2f}", offset=below, bold=wins)
    figure.text(6 / 420, 12 / 226, text["lines"], fontsize=SMALL, va="center")
    return figure
