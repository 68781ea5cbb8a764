"""What the page on the KV cache claims beside the tests of the cache: what cannot be kept."""

import pytest
import torch

from attnref import MultiHeadAttention, positions, scaled_dot_product_attention

WIDTH, HEADS, N = 15, 5, 7


def second_layer_keys(layers, words, is_causal):
    """The keys of the first and of the second of two layers."""
    first, second = layers
    hidden = words + first(words, is_causal=is_causal)  # (n, D)
    return first.key_proj(words), second.key_proj(hidden)


@pytest.mark.claim("bidirectional-changes-old-keys")
@torch.no_grad()
def test_one_more_token_leaves_old_keys_alone_only_under_a_causal_mask(device, generator, randn):
    options = {"generator": generator, "device": device, "dtype": torch.float64}
    layers = [MultiHeadAttention(WIDTH, HEADS, **options) for _ in range(2)]
    words = randn(N + 1, WIDTH)
    for is_causal in (True, False):
        shorter = second_layer_keys(layers, words[:N], is_causal)
        longer = second_layer_keys(layers, words, is_causal)
        change = [
            (new[:N] - old).abs().max().item()
            for old, new in zip(shorter, longer, strict=True)
        ]  # fmt: skip
        # Sums of some ten products of numbers near 1 are off by far less than 1e-12.
        assert change[0] < 1e-12  # the first layer sees the words only
        assert change[1] < 1e-12 if is_causal else change[1] > 1e-2


@pytest.mark.claim("cached-keys-stay-turned")
def test_a_turned_key_is_cached_and_the_query_turns_by_its_own_position(randn):
    """Scores of a step are the last row of all; a query that starts again at 0 is wrong."""
    q, k, v = (randn(N, 6) for _ in range(3))
    whole = scaled_dot_product_attention(
        positions.rotary(q), positions.rotary(k), v, is_causal=True
    )
    cached = torch.cat([positions.rotary(row, offset=t) for t, row in enumerate(k.split(1))])
    for t in range(N):
        step = positions.rotary(q[t : t + 1], offset=t)
        output = scaled_dot_product_attention(step, cached[: t + 1], v[: t + 1])
        torch.testing.assert_close(output[0], whole[t], rtol=0, atol=1e-12)
        wrong = scaled_dot_product_attention(
            positions.rotary(q[t : t + 1]), cached[: t + 1], v[: t + 1]
        )
        assert t == 0 or (wrong[0] - whole[t]).abs().max() > 1e-3
