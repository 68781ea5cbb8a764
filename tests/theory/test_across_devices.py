"""What the page on many devices says of published numbers."""

import pytest
import torch

from attnref import cost

HALF = torch.bfloat16


@pytest.mark.claim("published-blocks-are-counted")
def test_minimal_blocks_of_ring_attention():
    """Table 2 of arXiv 2310.01889, in thousands of tokens, for heads of any width."""
    for speed, bandwidth, block, sequence in (
        (312e12, 300e9, 1.0, 6.2),
        (123e12, 112e9, 1.1, 6.6),
        (275e12, 268e9, 1.0, 6.2),
        (196e12, 186e9, 1.1, 6.3),
    ):
        for width in (64, 128):
            sizes = cost.Sizes(n=1, m=1, d_k=width, d_v=width, num_heads=4096 // width, dtype=HALF)
            link = cost.Link(bandwidth)
            found = cost.hiding_length(sizes, link, operations_per_second=speed) / 1e3
            assert (round(found, 1), round(6 * found, 1)) == (block, sequence)


@pytest.mark.claim("published-blocks-are-counted")
def test_one_row_of_the_table_is_printed_otherwise():
    """A100 and InfiniBand, where it prints 24.5 and 149.5."""
    sizes = cost.Sizes(n=1, m=1, d_k=128, d_v=128, num_heads=32, dtype=HALF)
    found = cost.hiding_length(sizes, cost.Link(12.5e9), operations_per_second=312e12)
    assert found == pytest.approx(24960)
    assert found / 24.5e3 == pytest.approx(1, abs=0.02)
    assert 6 * found / 149.5e3 == pytest.approx(1, abs=0.002)


@pytest.mark.claim("published-prefill-is-counted")
def test_speed_of_a_published_prefill():
    """Appendix A of arXiv 2411.01783: 4.9e18 operations, 502e12 per second on each of 128 GPUs."""
    n, layers, gpus, seconds = 1_000_000, 126, 128, 77
    share = {"d_k": 128, "d_v": 128, "num_heads": 16, "num_kv_heads": 1, "dtype": HALF}
    sizes = cost.Sizes(n=n, m=n, **share)  # of one of the eight GPUs of a server
    ranks = [cost.ring(sizes, ranks=16, rank=rank, is_causal=True) for rank in range(16)]
    attention = 8 * layers * sum(one.operations.matmul for one in ranks)
    assert attention == pytest.approx(4.1e18, rel=0.01)
    total = attention + 2 * 405e9 * n
    assert total == pytest.approx(4.9e18, rel=0.01)
    reached = total / gpus / seconds
    assert reached == pytest.approx(502e12, rel=0.005)
    assert round(reached / 540e12, 2) == 0.93
    # Of their power-limited processors; of the peak of an H100 at full power it is less.
    assert [round(reached / peak, 2) for peak in (800e12, 989e12)] == [0.63, 0.51]
