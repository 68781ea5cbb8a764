"""Pairs and tiles, counted one by one."""

import numpy as np
import pytest

from attnref import cost, masks
from tests.cost.programs import spans


def test_allowed_pairs_and_tiles_by_enumeration():
    limits = [None, *range(-3, 5)]
    windows = [(a, b) for a in limits for b in limits if None in (a, b) or a + b >= 0]
    for n, m, (left, right) in [(n, m, w) for n in (1, 3, 7) for m in (1, 5) for w in windows]:
        allowed = np.array(
            [
                [(left is None or j >= i - left) and (right is None or j <= i + right)
                 for j in range(m)]
                for i in range(n)
            ]
        )  # fmt: skip
        assert cost.allowed_pairs(n, m, window=(left, right)) == allowed.sum()
        for block in [(1, 1), (2, 3), (3, 2), (9, 9)]:
            met = [
                (range(n)[rows], range(m)[columns])
                for rows in spans(n, block[0])
                for columns in spans(m, block[1])
                if allowed[rows, columns].any()
            ]
            loads = {(rows, j) for rows, columns in met for j in columns}
            assert cost.tiles(n, m, block=block, window=(left, right)) == cost.Tiles(
                count=len(met),
                pairs=sum(len(rows) * len(columns) for rows, columns in met),
                rows=sum(len(rows) for rows, _ in met),
                columns=len(loads),
            )


@pytest.mark.claim("share-of-a-padded-batch")
@pytest.mark.claim("padding-waste")
def test_useful_share_of_a_padded_batch():
    lengths = [512] + 31 * [32]
    real = masks.padding(lengths, 512).dense()[:, 0, 0]  # (b, m)
    slots, scores = cost.useful_share(lengths)
    assert slots == real.float().mean().item()
    assert scores == (real.sum(-1) ** 2).sum().item() / (32 * 512**2)
    assert (round(100 * slots, 1), round(100 * scores, 1)) == (9.2, 3.5)
