"""Masks beside what defines them: for one pair, in plain Python."""

import itertools

import pytest
import torch

from attnref import masks
from attnref.masks import causal, dilated, documents, dyadic, padding, sliding_window, strided, tree

N, M = 11, 17
START, END = {"alignment": "top-left"}, {"alignment": "bottom-right"}
LENGTHS = [5, 0, 17]
IDS = [3, 3, -1, 0, 0, 0, 3, -1, 7, 7, 3]
LAYOUT = [[True, False, True], [False, False, True]]
HEAD_LAYOUTS = [LAYOUT, [[False, True, True], [True, True, False]]]

# Two roots, and parents that come after their children; of the same forest in another order.
PARENTS = [4, 0, -1, 2, -1, 2, 3, 4, 6, 0, 3]
SHUFFLED = [10 - parent if parent >= 0 else -1 for parent in PARENTS[::-1]]


def is_on_path(parents: list[int], node: int, other: int) -> bool:
    """Whether one who walks from a node up to its root meets the other."""
    while node not in (other, -1):
        node = parents[node]
    return node == other


def power_of_two(distance: int) -> bool:
    return distance in {2**k for k in range(40)}


# Each mask beside its definition for one pair, in plain Python: (query i, key j) or, with
# leading dimensions, (sample b, head h, query i, key j).
MASKS = {
    "causal": (causal(N), lambda i, j: j <= i),
    "causal, top-left": (causal(N, M, **START), lambda i, j: j <= i),
    "causal, bottom-right": (causal(N, M, **END), lambda i, j: j <= i + 6),
    "causal, more queries": (causal(M, N, **END), lambda i, j: j <= i - 6),
    "window": (sliding_window(N, window=4, is_causal=True), lambda i, j: j in range(i - 3, i + 1)),
    "window of one": (sliding_window(N, window=1, is_causal=True), lambda i, j: j == i),
    "window, two-sided": (
        sliding_window(N, M, window=5, **END),
        lambda i, j: j in range(i + 6 - 2, i + 6 + 3),
    ),
    "window, top-left": (
        sliding_window(N, M, window=3, **START, is_causal=True),
        lambda i, j: j in {i, i - 1, i - 2},
    ),
    "dilated": (
        dilated(N, M, window=3, dilation=2, **END, is_causal=True),
        lambda i, j: j in {i + 6, i + 4, i + 2},
    ),
    "dilated, two-sided": (
        dilated(M, window=5, dilation=3),
        lambda i, j: j in {i - 6, i - 3, i, i + 3, i + 6},
    ),
    "strided": (strided(M, stride=4), lambda i, j: j <= i and (i - j < 4 or (i - j) % 4 == 0)),
    "strided, bottom-right": (
        strided(M, N, stride=3, **END),
        lambda i, j: j <= i - 6 and (i - 6 - j < 3 or (i - 6 - j) % 3 == 0),
    ),
    "dyadic": (dyadic(M), lambda i, j: i == j or power_of_two(i - j)),
    "dyadic, bottom-right": (
        dyadic(N, M, **END),
        lambda i, j: i + 6 == j or power_of_two(i + 6 - j),
    ),
    "prefix": (masks.prefix_lm(N, prefix=3), lambda i, j: j <= i or j < 3),
    "documents": (documents(IDS), lambda i, j: IDS[i] == IDS[j] and IDS[i] != -1),
    "packed": (masks.packed([2, 3, 0, 6]), lambda i, j: (i < 2) == (j < 2) and (i < 5) == (j < 5)),
    "global": (masks.global_tokens(N, positions=[7, 2]), lambda i, j: i in (2, 7) or j in (2, 7)),
    "tree": (tree(PARENTS), lambda i, j: is_on_path(PARENTS, i, j)),
    "tree after a past": (
        tree(PARENTS, past=M - N),
        lambda i, j: j < M - N or is_on_path(PARENTS, i, j - (M - N)),
    ),
    "trees of samples": (
        tree([PARENTS, SHUFFLED], past=3),
        lambda b, h, i, j: j < 3 or is_on_path([PARENTS, SHUFFLED][b], i, j - 3),
    ),
    "a tree, without its far past": (
        tree(PARENTS, past=6) & ~padding([2, 5], M),
        lambda b, h, i, j: j >= [2, 5][b] and (j < 6 or is_on_path(PARENTS, i, j - 6)),
    ),
    "layout": (
        masks.block_layout(N, M, layout=torch.tensor(LAYOUT), block_size=7),
        lambda i, j: LAYOUT[i // 7][j // 7],
    ),
    "padding": (padding(LENGTHS, M), lambda b, h, i, j: j < LENGTHS[b]),
    "documents of samples": (
        documents([IDS, IDS[::-1]]),
        lambda b, h, i, j: (ids := [IDS, IDS[::-1]][b])[i] == ids[j] and ids[i] != -1,
    ),
    "layouts of heads": (
        masks.block_layout(N, M, layout=torch.tensor(HEAD_LAYOUTS), block_size=7),
        lambda h, i, j: HEAD_LAYOUTS[h][i // 7][j // 7],
    ),
    "causal and padded": (
        causal(N, M, **END) & padding(LENGTHS, M),
        lambda b, h, i, j: j <= i + 6 and j < LENGTHS[b],
    ),
    "prefixes of samples": (
        causal(M) | padding(LENGTHS, M),
        lambda b, h, i, j: j <= i or j < LENGTHS[b],
    ),
    "Longformer": (
        sliding_window(N, window=3) | masks.global_tokens(N, positions=[0]),
        lambda i, j: abs(i - j) <= 1 or i == 0 or j == 0,
    ),
    "not causal": (~causal(N), lambda i, j: j > i),
}
every_mask = pytest.mark.parametrize("name", MASKS)


def defined_mask(name, device):
    mask, allowed = MASKS[name]
    answers = [allowed(*place) for place in itertools.product(*map(range, mask.shape))]
    return torch.tensor(answers, device=device).reshape(mask.shape)
