"""Attention by hand: a few words with vectors of three numbers, and all that becomes of them.

One word asks, the query. Its scores with every word, the factor on them, the mask, the weights and
the weighted average are the picture, or the matrices of all words as queries; one key's part in it
is shown step by step.
"""

from itertools import product
from typing import Any

import torch

import attnref
from attnref import similarity

WORDS = {
    "Your": [0.43, 0.15, 0.89],
    "journey": [0.55, 0.87, 0.66],
    "starts": [0.57, 0.85, 0.64],
    "with": [0.22, 0.58, 0.33],
    "one": [0.77, 0.25, 0.10],
    "step": [0.05, 0.80, 0.55],
}
STATE: dict[str, Any] = {
    "words": list(WORDS),
    "vectors": list(WORDS.values()),
    "query": 1,
    "key": 4,
    "scale": "1",  # or "root", which is 1/sqrt(3), or "own"
    "own": 1,
    "temperature": 1,
    "is_causal": False,
    "padding": 0,
    "side": "end",  # or "start"
    "view": "loop",  # or "matrix"
    "plane": "0,1",
}
# The same sentence, with the same vectors, where the page is not in English.
SPOKEN = {"pt": {"words": ["Sua", "jornada", "começa", "com", "um", "passo"]}}
PROGRAM = True


def values(state: dict[str, Any]) -> dict[str, float]:
    x = torch.tensor(state["vectors"], dtype=torch.float64)  # (n, 3)
    n, query, key = len(x), state["query"], state["key"]
    factor = {"1": 1.0, "root": 3**-0.5, "own": state["own"]}[state["scale"]] / state["temperature"]
    is_word = torch.ones(n, dtype=torch.bool)  # False: padding, to which no word may attend
    if state["padding"]:
        at_end = state["side"] == "end"
        is_word[slice(n - state["padding"], n) if at_end else slice(state["padding"])] = False

    scores = similarity.dot_scores(x, x, scale=1.0)  # (n, n)
    scaled = similarity.dot_scores(x, x, scale=factor)  # (n, n)
    mask = {"attn_mask": is_word, "is_causal": state["is_causal"], "scale": factor}
    context, weights, lse = attnref.attend(x, x, x, **mask)  # (n, 3), (n, n), (n,)
    may = is_word[key] and (key <= query or not state["is_causal"])

    shown = {
        "factor": factor,
        "temperature": float(state["temperature"]),
        "key-score": scores[query, key],
        "key-scaled": scaled[query, key],
        "key-exponent": scaled[query, key] if may else -torch.inf,
        "key-exponential": scaled[query, key].exp() if may else 0.0,
        "total": lse[query].exp(),
        "key-weight": weights[query, key],
    }
    for p in range(3):
        shown[f"query-{p}"] = x[query, p]
        shown[f"key-{p}"] = x[key, p]
        shown[f"term-{p}"] = x[query, p] * x[key, p]
        shown[f"part-{p}"] = weights[query, key] * x[key, p]
        shown[f"context-{p}"] = context[query, p]
    if state["view"] == "loop":
        for j in range(n):
            shown |= {f"vector-{j}-{p}": x[j, p] for p in range(3)}
            shown[f"score-{j}"] = scores[query, j]
            shown[f"scaled-{j}"] = scaled[query, j]
            shown[f"weight-{j}"] = weights[query, j]
    else:
        for i, j in product(range(n), range(n)):
            shown[f"scaled-{i}-{j}"] = scaled[i, j]
            shown[f"weight-{i}-{j}"] = weights[i, j]
        shown |= {f"context-{i}-{p}": context[i, p] for i in range(n) for p in range(3)}
    return {name: float(value) for name, value in shown.items()}
