"""What the page on operations claims beside the tests of the cost model."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnref.cost import Sizes, plain

WIDTH, N = 30, 7


@pytest.mark.claim("heads-do-not-change-the-products")
def test_cutting_one_width_into_more_heads_costs_no_product():
    """Products by PyTorch's own count on its own layer; exponentials grow with the heads."""
    divisors = [1, 2, 3, 5, 6, 10, 15, 30]
    products, exponentials = [], []
    for heads in divisors:
        layer = torch.nn.MultiheadAttention(WIDTH, heads, batch_first=True, device="meta")
        x = torch.empty(1, N, WIDTH, device="meta")
        with FlopCounterMode(display=False) as counter:
            layer(x, x, x, need_weights=False)
        products.append(counter.get_total_flops())
        d = WIDTH // heads
        sizes = Sizes(n=N, m=N, d_k=d, d_v=d, num_heads=heads)
        exponentials.append(plain(sizes).operations.exponentials)
    assert set(products) == {8 * N * WIDTH**2 + 4 * N**2 * WIDTH}
    assert exponentials == [heads * N * N for heads in divisors]


@pytest.mark.claim("width-bounds-the-rank")
def test_a_narrow_head_has_scores_of_low_rank_and_weights_of_full_rank(device, generator):
    n, d_k, d_v = 23, 3, 5
    options = {"generator": generator, "device": device, "dtype": torch.float64}
    query, key = torch.randn(n, d_k, **options), torch.randn(n, d_k, **options)
    value = torch.randn(n, d_v, **options)
    scores = query @ key.mT
    weights = torch.softmax(scores, dim=-1)
    rank = torch.linalg.matrix_rank
    assert rank(scores) == d_k
    assert rank(weights) == n
    assert rank(weights @ value) == d_v
