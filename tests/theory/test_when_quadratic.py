"""What the page on the quadratic term claims, counted by PyTorch on its own layer."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnref import KVCache

WIDTH = 30


def products(n):
    """Operations in products of an encoder layer: the core's, and all."""
    layer = torch.nn.TransformerEncoderLayer(WIDTH, 5, 4 * WIDTH, batch_first=True, device="meta")
    x = torch.empty(1, n, WIDTH, device="meta", requires_grad=True)  # else a fused layer runs
    with FlopCounterMode(display=False) as counter:
        layer(x)
    return counter.get_flop_counts()["Global"][torch.ops.aten.bmm], counter.get_total_flops()


LENGTHS = [1, 7, WIDTH, 6 * WIDTH, 1000]


@pytest.mark.claim("doubling-the-text")
def test_twice_the_text_costs_from_two_to_four_times():
    for n in LENGTHS:
        growth = products(2 * n)[1] / products(n)[1]
        assert growth == pytest.approx(2 + 2 * n / (n + 6 * WIDTH), rel=1e-12)
        assert 2 < growth < 4


@pytest.mark.claim("free-attention-gains-little")
def test_attention_for_nothing_divides_the_layer_by_little():
    for n in LENGTHS:
        core, everything = products(n)
        assert everything / (everything - core) == pytest.approx(1 + n / (6 * WIDTH), rel=1e-12)


@pytest.mark.claim("cache-against-weights")
@pytest.mark.parametrize("batch", [1, 6, 30])
def test_the_caches_of_a_batch_weigh_as_much_as_the_layer_at_six_widths_of_tokens(batch):
    heads, tokens = 5, 6 * WIDTH // batch
    layer = torch.nn.TransformerEncoderLayer(WIDTH, heads, 4 * WIDTH, bias=False, device="meta")
    weights = sum(p.nbytes for p in layer.parameters() if p.dim() == 2)  # without the norms
    cache = KVCache()
    rows = torch.empty(batch, heads, tokens, WIDTH // heads, device="meta")
    cache.append(rows, rows)
    assert cache.nbytes == weights
