"""What the page on hashing derives: how often two vectors share a hash."""

import math

import pytest
import torch

from attnref.variants.lsh import _places, random_rotations


@pytest.mark.claim("two-buckets-collide-by-angle")
def test_two_buckets_collide_in_proportion_to_the_angle(generator):
    for degrees in (0, 15, 60, 90, 135, 180):
        draws, d_k = 40_000, 7
        angle = math.radians(degrees)
        pair = torch.zeros(2, d_k, device=generator.device)
        pair[0, 0], pair[1, 0], pair[1, 1] = 3.0, math.cos(angle), math.sin(angle)
        rotations = random_rotations(draws, d_k, num_buckets=2, generator=generator)
        # Two tokens change places just where the second one's bucket comes first: in one order of
        # the two or in the other, if their buckets differ, and in neither if they share one.
        changed = [
            _places(tokens, rotations)[:, 0].float().mean() for tokens in (pair, pair.flip(0))
        ]
        share = 1 - sum(changed).item()
        expected = 1 - degrees / 180
        # Five standard errors of a share; none where it is certain, but for one draw in rounding.
        error = math.sqrt(expected * (1 - expected) / draws)
        assert abs(share - expected) <= 5 * error + 1 / draws
