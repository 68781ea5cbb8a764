"""A small Transformer that one types to: the model of the notebook of training, in eight bits.

Its weights are those of the file that the browser gets, and it is run here by PyTorch, with
attnref's attention and the factor and the mask of the state.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from docs.explorers import small_model

State = dict[str, Any]

# `at` is the character that looks: 0 the last one, -1 the one before it.
STATE: State = {
    "text": "The weights of the quer",
    "factor": "inverse_sqrt",
    "mask": "causal",
    "head": "1-1",
    "at": 0,
}
PROGRAM = False
HEAD_DIM = small_model.notebook()["d_k"]
FACTORS = {"unscaled": 1.0, "inverse_sqrt": HEAD_DIM**-0.5, "inverse": 1 / HEAD_DIM}
WINDOW = 32  # characters that the model reads, the last ones
LIKELY = 8  # characters that are shown as the next
SHADES = 12
GLYPHS = {" ": "·", "\n": "¶"}


def values(state: State) -> dict[str, float]:
    tokens = read(state["text"])
    chances, weights = run(tokens, state["factor"], state["mask"])
    query = place(state, len(tokens))
    found = {"kilobytes": small_model.WEIGHTS.stat().st_size / 1000}
    given = chances[:-1].gather(1, torch.tensor(tokens[1:], dtype=torch.long)[:, None]).flatten()
    if len(given):
        found["loss"] = -given.log().mean().item()
    for key, chance in enumerate(given.tolist(), 2):
        found[f"given-{key}"] = chance
    for rank, chance in enumerate(chances[query].topk(LIKELY).values.tolist(), 1):
        found[f"next-{rank}"] = chance
    for layer, heads in enumerate(weights, 1):
        for head, matrix in enumerate(heads, 1):
            for key, weight in enumerate(matrix[query].tolist(), 1):
                found[f"weight-{layer}-{head}-{key}"] = weight
    return found


def drawing(state: State) -> dict[str, Any]:
    """What the figure shows of a state beside its numbers."""
    letters, tokens = load_weights()[0]["letters"], read(state["text"])
    chances, weights = run(tokens, state["factor"], state["mask"])
    query = place(state, len(tokens))
    likely = chances[query].topk(LIKELY).indices.tolist()
    return {
        "size": WINDOW,
        "query": query,
        "letters": [letters[token] for token in tokens],
        "glyphs": [glyph(letters[token]) for token in tokens],
        "likely": [glyph(letters[token]) for token in likely],
        "maps": {
            f"{layer}-{head}": shades(matrix)
            for layer, heads in enumerate(weights, 1)
            for head, matrix in enumerate(heads, 1)
        },
    }


def read(text: str) -> list[int]:
    """The last characters of the text, which begins on a new line; those not known are left out."""
    letters = load_weights()[0]["letters"]
    return [letters.index(letter) for letter in f"\n{text}" if letter in letters][-WINDOW:]


def place(state: State, count: int) -> int:
    return max(count - 1 + int(state["at"]), 0)


def run(tokens: list[int], factor: str, mask: str) -> tuple[Tensor, Tensor]:
    """The probabilities ``(n, letters)`` and the weights ``(layers, heads, n, n)``."""
    with torch.no_grad():
        logits, weights = model(factor)(torch.tensor([tokens]), mask == "causal")
    return logits[0].softmax(dim=-1), weights[:, 0]


def shades(matrix: Tensor) -> list[str]:
    """For each shade the outline of the cells that have it; the lightest are left out."""
    paths = [""] * SHADES
    for row, weights in enumerate(matrix.tolist()):
        for column, weight in enumerate(weights):
            if shade := int(weight * SHADES + 0.5):
                paths[shade - 1] += f"M{column} {row}h1v1h-1z"
    return paths


def glyph(letter: str) -> str:
    return GLYPHS.get(letter, letter)


@cache
def load_weights() -> tuple[dict[str, Any], dict[str, Tensor]]:
    return small_model.unpack(small_model.WEIGHTS.read_bytes())


@cache
def model(factor: str) -> nn.Module:
    return small_model.model(load_weights()[1], FACTORS[factor])
