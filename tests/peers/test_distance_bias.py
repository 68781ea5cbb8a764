"""T5 in the Transformers library: its buckets, its outputs and the gradient of its table."""

import pytest
import torch

from attnref import masks, positions
from attnref.variants.distance_bias import distance_bias_attention
from tests.variants.every import every

t5 = pytest.importorskip(
    "transformers.models.t5.modeling_t5", reason="transformers is not installed"
)
N, WIDTH, HEADS, HEAD_DIM = 53, 23, 3, 5


@pytest.mark.claim("buckets-are-those-of-t5")
@every(
    ("bidirectional", "num_buckets", "max_distance"),
    [
        (bidirectional, num_buckets, max_distance)
        for bidirectional, sides in ((True, 2), (False, 1))
        for num_buckets in (4, 8, 32, 64, 320)
        for max_distance in (3, 20, 128, 129, 1000, 20000)
        if max_distance > num_buckets // sides // 2  # or none is left for the logarithm
    ]
    # An odd number, and where the logarithm in float64 would give another bucket.
    + [(False, 9, 128), (False, 36, 50), (True, 72, 50), (False, 48, 81)],
)
def test_buckets_everywhere(bidirectional, num_buckets, max_distance):
    distance = torch.arange(-50_000, 50_001)
    options = {
        "num_buckets": num_buckets,
        "max_distance": max_distance,
        "bidirectional": bidirectional,
    }
    expected = t5.T5Attention._relative_position_bucket(distance, **options)
    assert torch.equal(positions.relative_buckets(distance, **options), expected)


@pytest.mark.claim("distance-bias-is-t5")
@pytest.mark.parametrize("is_decoder", [False, True])
def test_outputs_and_gradients_of_a_layer(is_decoder, generator, added, assert_same):
    config = t5.T5Config(
        d_model=WIDTH, d_kv=HEAD_DIM, num_heads=HEADS, is_decoder=is_decoder, dropout_rate=0.0
    )
    config._attn_implementation = "eager"
    layer = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    x = torch.randn(2, N, WIDTH, dtype=torch.float64, generator=generator)
    allowed = masks.padding([N, 31], N)
    allowed = allowed & masks.causal(N) if is_decoder else allowed
    theirs = layer(x, mask=added(allowed, least=torch.finfo(torch.float64).min))[0]
    query, key, value = (
        linear(x).unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
        for linear in (layer.q, layer.k, layer.v)
    )
    buckets = positions.relative_buckets(positions.distances(N), bidirectional=not is_decoder)
    bias = layer.relative_attention_bias.weight[buckets].T  # (h, 2 n - 1)
    ours = layer.o(
        distance_bias_attention(query, key, value, bias, allowed, scale=1.0)
        .transpose(1, 2)
        .flatten(2)
    )
    close = {"rtol": 1e-11, "atol": 1e-11}
    assert_same(ours, theirs, layer.parameters(), gradients=close, rtol=1e-12, atol=1e-12)
