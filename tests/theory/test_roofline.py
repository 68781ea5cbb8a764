"""What the page on the roofline claims: intensities, and why a fused kernel is faster."""

import pytest
import torch

from attnref import cost

HALF = torch.float16


def square(n, d=64):
    return cost.Sizes(n=n, m=n, d_k=d, d_v=d, dtype=HALF)


@pytest.mark.claim("plain-intensity-is-bounded")
@pytest.mark.parametrize("d", [16, 64, 128])
def test_longer_texts_do_not_raise_the_intensity_of_the_plain_formula(d):
    """Six tensors of scores pass through memory for 4 d + 6 operations per score."""
    limit = d / 3 + 1 / 2
    found = [cost.of("plain", square(2**power, d)).intensity for power in range(6, 24)]
    assert found == sorted(found)
    assert found[-1] < limit
    assert found[-1] == pytest.approx(limit, rel=1e-4)  # 4 n d beside 6 n² numbers
    # Read and written once, each number of Q, K, V and O is used n times.
    for n in (64, 1024, 2**20):
        once = cost.of("fused", square(n, d))
        assert once.operations.matmul / once.bytes_moved == n / 2


@pytest.mark.claim("fused-moves-less")
@pytest.mark.parametrize("n", [512, 1024, 4096])
def test_tiles_save_traffic_and_no_product(n):
    sizes, block = square(n), (128, 128)
    for backward, products, traffic in ((False, 1, 5), (True, 5 / 4, 3)):
        tiles = cost.of("blockwise", sizes, block=block, backward=backward)
        plain = cost.of("plain", sizes, backward=backward)
        assert tiles.operations.matmul == products * plain.operations.matmul
        assert tiles.bytes_moved < plain.bytes_moved / traffic
