"""Softmax attention of one query, block after block of keys: what is carried on, step by step.

The step of a state is the number of blocks that have been seen. Everything after a step is the
merge of attention over the blocks so far, by ``attnref.softmax``; a value has one component, so
that the sum ``a`` is a number. The scores are made up, by a rule that the script has, too.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref import cost, masks
from attnref.softmax import Partial, merge, partial_attention, stable

State = dict[str, Any]

PROGRAM = True
STATE: State = {
    "preset": "mixed",
    "edits": {},  # "query-key": a score that the reader has set, None for −∞
    "shift": 0,  # added to every score
    "keys": 12,
    "block": 3,
    "row": 7,
    "causal": False,
    "backward": False,
    "step": 2,  # beyond the last block it is the last, as a row or a block size beyond the keys is
}
# Digits of π, so that a reader can follow sums of them.
VALUES = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3)


class Block(NamedTuple):
    first: int  # its keys, counted from 1
    last: int
    is_skipped: bool  # the mask allows none of its pairs


def values(state: State) -> dict[str, float]:
    """Every number that is shown in a state, by name."""
    scores = scores_of(state)  # (1, m)
    value = torch.tensor(VALUES[: state["keys"]], dtype=torch.float64)[:, None]  # (m, 1)
    blocks = blocks_of(state)
    step = min(state["step"], len(blocks))
    named = {f"score-{j}": score for j, score in enumerate(scores[0].tolist(), 1)}

    so_far = [empty_partial()]
    for block in blocks[:step]:
        keys = slice(block.first - 1, block.last)
        before = so_far[-1]
        part = partial_attention(scores[:, keys], value[keys])
        so_far.append(before if block.is_skipped else merge(before, part))
    for index, part in enumerate(so_far):
        named |= {f"mu-{index}": float(part.maximum), f"ell-{index}": float(part.normaliser)}
        named[f"a-{index}"] = float(part.output * part.normaliser)
        if index and not blocks[index - 1].is_skipped:
            named[f"factor-{index}"] = float(
                rescale_factor(so_far[index - 1].maximum, part.maximum)
            )
    now = so_far[-1]
    named["output"] = float(now.output)
    for block in blocks[:step]:
        for j in range(block.first, block.last + 1):
            if not block.is_skipped:
                named[f"power-{j}"] = float(rescale_factor(scores[:, j - 1], now.maximum))

    if step and not blocks[step - 1].is_skipped:
        block = blocks[step - 1]
        keys = slice(block.first - 1, block.last)
        part = rescale(partial_attention(scores[:, keys], value[keys]), now.maximum)
        named["block-largest"] = float(scores[:, keys].amax())
        named["block-ell"] = float(part.normaliser)
        named["block-a"] = float(part.output * part.normaliser)
    return named | direct_values(scores, value) | counts(state, blocks, step)


def direct_values(scores: Tensor, value: Tensor) -> dict[str, float]:
    """The softmax average in one go, and the formula as it stands in float32 where it gives one."""
    powers = scores.float().exp()
    plain = float(powers / powers.sum() @ value.float())
    return {
        "whole": float(stable(scores) @ value),
        "naive-ell": float(powers.sum()),
        **({} if math.isnan(plain) else {"naive-output": plain}),
    }


def counts(state: State, blocks: list[Block], step: int) -> dict[str, float]:
    """Scores and sums that are held now, and the scores of the whole table."""
    n, block_size = state["keys"], size_of(state)
    sizes = cost.Sizes(n=n, m=n, d_k=1, d_v=1)
    window = (None, 0) if state["causal"] else (None, None)
    tiles = cost.tiles(n, n, block=(block_size, block_size), window=window)
    strip = strip_of(state)
    now = blocks[step - 1] if step else None
    width = now.last - now.first + 1 if now and not now.is_skipped else 0
    return {
        "whole-scores": sizes.score_bytes // sizes.dtype.itemsize,
        "held-scores": len(strip) * width,
        "held-sums": 3 * len(strip),
        "computed-scores": tiles.pairs,
        "computed-blocks": tiles.count,
    }


def scores_of(state: State) -> Tensor:
    """The scores of the chosen query, ``(1, m)``, with −∞ where the mask forbids a key."""
    m, i = state["keys"], row_of(state)
    scores = [score(state, i, j) + state["shift"] for j in range(1, m + 1)]
    row = torch.tensor([scores], dtype=torch.float64)  # (1, m)
    if state["causal"]:
        row = row.masked_fill(~masks.causal(m).dense()[i - 1], -torch.inf)
    return row


def score(state: State, i: int, j: int) -> float:
    """The score of query i and key j before anything is added to all."""
    if f"{i}-{j}" in state["edits"]:
        edited = state["edits"][f"{i}-{j}"]
        return -math.inf if edited is None else float(edited)
    if state["preset"] == "masked" and j <= size_of(state):
        return -math.inf
    if state["preset"] == "equal":
        return 1.0
    if state["preset"] == "last" and j == state["keys"]:
        return 8.0
    return ((3 * i * i + 39 * j * j + 19 * i * j + 20) % 61 - 30) / 10


def blocks_of(state: State) -> list[Block]:
    """The blocks of keys, in the order in which they are seen."""
    m, block_size = state["keys"], size_of(state)
    allowed = [masks.FULL] * math.ceil(m / block_size)
    if state["causal"]:
        strips = masks.causal(m).block_summary(block_size)
        allowed = strips[(row_of(state) - 1) // block_size].tolist()
    blocks = [
        Block(index * block_size + 1, min((index + 1) * block_size, m), kind == masks.EMPTY)
        for index, kind in enumerate(allowed)
    ]
    return blocks[::-1] if state["backward"] else blocks


def strip_of(state: State) -> range:
    """The queries that are computed together with the chosen one, counted from 1."""
    block_size = size_of(state)
    first = (row_of(state) - 1) // block_size * block_size + 1
    return range(first, min(first + block_size, state["keys"] + 1))


def size_of(state: State) -> int:
    return min(int(state["block"]), int(state["keys"]))


def row_of(state: State) -> int:
    return min(int(state["row"]), int(state["keys"]))


def empty_partial(maximum: Tensor | None = None) -> Partial:
    """Attention over no key; with a maximum, one to which others are brought by a merge."""
    zero = torch.zeros(1, 1, dtype=torch.float64)
    return Partial(zero, torch.full_like(zero, -torch.inf) if maximum is None else maximum, zero)


def rescale(part: Partial, maximum: Tensor) -> Partial:
    """The same attention, its normaliser counted from another maximum, not below its own."""
    return merge(part, empty_partial(maximum))


def rescale_factor(score: Tensor, maximum: Tensor) -> Tensor:
    """exp(score − maximum), and 0 where the score is −∞: what a merge multiplies a sum by."""
    one = torch.ones(1, 1, dtype=torch.float64)
    return rescale(Partial(one, score.reshape(1, 1), one), maximum).normaliser
