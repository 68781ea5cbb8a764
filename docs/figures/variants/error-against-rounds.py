"""The error of attention by hashing against the share of keys met, round by round."""

import torch

import attnref
from attnref import lsh_attention, random_rotations
from docs.figures.drawing import (
    FIRST,
    SECOND,
    SOFT,
    THIRD,
    axes,
    label,
    name_axes,
    new_figure,
    ticks,
)
from docs.figures.tokens import error, noise, waves

TEXT = {
    "pt": {
        "x": "parte das chaves encontrada, em 1, 2, 4 e 8 rodadas",
        "y": "erro relativo (tracejado: 1, tanto quanto responder zero)",
        "random": "aleatórios",
        "smooth": "suaves",
        "directions": "direções",
    },
    "en": {
        "x": "share of the keys seen, in 1, 2, 4 and 8 rounds",
        "y": "relative error (dashed: 1, the error of the answer zero)",
        "random": "random",
        "smooth": "smooth",
        "directions": "directions",
    },
}

N, D, CHUNK = 512, 64, 32
ROUNDS = (1, 2, 4, 8)


def directions(generator):
    """Queries in 16 groups of similar direction; the keys are the queries at one length."""
    centres = 2 * noise(16, D, generator)
    group = torch.randint(16, (N,), generator=generator)
    query = centres[group] + 0.5 * noise(N, D, generator)
    return query, 8 * query / query.norm(dim=-1, keepdim=True), noise(N, D, generator)


def draw(text):
    generator = torch.Generator().manual_seed(0)
    figure = new_figure(320)
    plot = axes(figure, 54, 44, 270, 226, yscale="log")
    kinds = {
        "smooth": ([waves(N, D, generator) for _ in range(3)], SECOND, "s", -8),
        "random": ([noise(N, D, generator) for _ in range(3)], FIRST, "o", 8),
        "directions": (directions(generator), THIRD, "^", 0),
    }
    for name, ((q, k, v), colour, marker, up) in kinds.items():
        exact = attnref.scaled_dot_product_attention(q, k, v)
        drawn = random_rotations(
            ROUNDS[-1], D, num_buckets=16, generator=generator, dtype=torch.float64
        )
        met, errors = [], []
        for rounds in ROUNDS:
            weights = lsh_attention(
                q,
                k,
                torch.eye(N, dtype=torch.float64),
                rotations=drawn[:rounds],
                block_size=CHUNK,
            )
            met.append(float((weights > 0).double().mean()))
            errors.append(error(weights @ v, exact))
        plot.plot(met, errors, marker=marker, color=colour, clip_on=False)
        label(plot, (met[-1], errors[-1]), text[name], colour, offset=(9, up))
    plot.axhline(1, color=SOFT, linewidth=1, dashes=(6, 2))
    plot.set_xlim(0, 1)
    plot.set_ylim(0.01, 4)
    ticks(plot, x=[0, 0.25, 0.5, 0.75, 1], y=[0.01, 0.1, 1])
    plot.grid(axis="y")
    name_axes(plot, text["x"], text["y"])
    return figure
