"""What the page on hashing derives: how often two vectors share a hash."""

import math

import pytest
import torch

from attnref.variants.lsh import random_rotations


@pytest.mark.claim("two-buckets-collide-by-angle")
@pytest.mark.parametrize("degrees", [0, 15, 60, 90, 135, 180])
def test_two_buckets_collide_in_proportion_to_the_angle(degrees, generator):
    draws, d_k = 40_000, 7
    angle = math.radians(degrees)
    pair = torch.zeros(2, d_k, device=generator.device)
    pair[0, 0], pair[1, 0], pair[1, 1] = 3.0, math.cos(angle), math.sin(angle)
    rotations = random_rotations(draws, d_k, num_buckets=2, generator=generator)
    side = torch.sign(pair @ rotations)[..., 0]  # (draws, 2)
    share = (side[:, 0] == side[:, 1]).float().mean().item()
    expected = 1 - degrees / 180
    # Five standard errors of a share; none where it is certain, but for one draw in rounding.
    error = math.sqrt(expected * (1 - expected) / draws)
    assert abs(share - expected) <= 5 * error + 1 / draws
