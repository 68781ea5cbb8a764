"""What the page on training, prefill and decoding claims: operations for each byte."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnref import KVCache, MultiHeadAttention, cost

HALF = {"dtype": torch.float16, "device": "meta"}  # sizes only: nothing is computed
WIDTH, HEADS, D = 96, 6, 16


def products(run):
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.claim("batch-raises-projections")
@pytest.mark.parametrize("batch", [1, 5, 64])
def test_decoding_does_one_operation_for_each_byte_of_weights_and_sequence(batch):
    """A weight of two bytes is read once and used by each sequence: one product, one sum."""
    layer = MultiHeadAttention(WIDTH, HEADS, bias=False, **HALF)
    x = torch.empty(batch, 1, WIDTH, **HALF)
    linears = (layer.query_proj, layer.key_proj, layer.value_proj, layer.out_proj)
    spent = products(lambda: [linear(x) for linear in linears])
    weights = sum(parameter.nbytes for parameter in layer.parameters())
    assert spent / weights == batch
    # Words come in and go out beside the weights, so the intensity stays below.
    wide = cost.feedforward(batch, 4096, 16_384, bias=False, dtype=torch.float16)
    assert 0.9 * batch < wide.intensity < batch or batch == 1


@pytest.mark.claim("batch-leaves-the-cache")
@pytest.mark.parametrize(("batch", "kv_heads"), [(1, 6), (64, 6), (5, 3), (1, 1)])
def test_only_sharing_raises_the_work_for_each_byte_of_the_cache(batch, kv_heads):
    cache = KVCache()
    shape = (batch, kv_heads, 97, D)
    key, value = cache.append(torch.empty(shape, **HALF), torch.empty(shape, **HALF))
    group = HEADS // kv_heads
    query = torch.empty(batch, kv_heads, group, D, **HALF)  # the rows of each group

    def core():
        scores = query @ key.mT
        return scores @ value

    assert products(core) / cache.nbytes == group
    sizes = cost.Sizes(
        n=1, m=97, d_k=D, d_v=D, batch=batch, num_heads=HEADS, num_kv_heads=kv_heads,
        dtype=torch.float16,
    )  # fmt: skip
    assert cost.of("fused", sizes).operations.matmul == products(core)
    assert sizes.cache_bytes == cache.nbytes
