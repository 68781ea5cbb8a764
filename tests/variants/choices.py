"""What the tests of MoBA, the indexer and native sparse attention share: inputs and a best few."""

import numpy as np
import torch

B, D_K, D_V, D_I, H_I = 3, 5, 7, 11, 2
COUNTS = 1, 2, 3, 97
SIZES = (17, 17, 0), (19, 13, 0), (5, 17, 12)  # n, m, past


def tokens(randn, n, m, heads=(2, 6), key_heads=None):
    key_lead = heads if key_heads is None else (*heads[:-1], key_heads)
    shapes = (*heads, n, D_K), (*key_lead, m, D_K), (*key_lead, m, D_V)
    return [randn(*shape).requires_grad_() for shape in shapes]


def index(randn, n, m, lead=(2,)):
    shapes = (*lead, H_I, n, D_I), (*lead, m, D_I), (*lead, H_I, n)
    return [randn(*shape).requires_grad_() for shape in shapes]


def means(x):
    return torch.stack([block.mean(-2) for block in x.split(B, -2)], -2)


def best_places(scores, count):
    """The places of the largest numbers of a row that are not -inf."""
    order = np.argsort(-scores, kind="stable")[:count]
    return [j for j in order if scores[j] > -np.inf]
