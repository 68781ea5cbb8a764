"""The gated attention of Qwen3-Next in the Transformers library, in values and gradients."""

import pytest
import torch

from attnref import MultiHeadAttention, masks, positions, scaled_dot_product_attention

qwen3_next = pytest.importorskip(
    "transformers.models.qwen3_next.modeling_qwen3_next", reason="transformers is not installed"
)
N, WIDTH, HEADS, KV_HEADS, HEAD_DIM = 13, 23, 4, 2, 6


@pytest.mark.claim("gate-is-qwen3-next")
def test_outputs_and_gradients_of_a_layer(generator, added, assert_same):
    config = qwen3_next.Qwen3NextConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        attention_bias=False,
        attention_dropout=0.0,
    )
    config._attn_implementation = "eager"
    theirs = qwen3_next.Qwen3NextAttention(config, layer_idx=0).double()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.4, generator=generator)

    def attention(query, key, value, **options):
        """Behind its norm of queries and keys, which is no matter of the gate."""
        query, key = (
            positions.rotary_half_split(norm(x))
            for norm, x in ((theirs.q_norm, query), (theirs.k_norm, key))
        )
        return scaled_dot_product_attention(query, key, value, **options)

    ours = MultiHeadAttention(
        WIDTH,
        HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        bias=False,
        gate="elementwise",
        attention=attention,
        dtype=torch.float64,
    )
    # Its rows are, head by head, those of the query and then those of the gate.
    query, gate = theirs.q_proj.weight.unflatten(0, (HEADS, 2, HEAD_DIM)).unbind(1)
    weights = {
        "query_proj.weight": query.flatten(0, 1),
        "gate_proj.weight": gate.flatten(0, 1),
        "key_proj.weight": theirs.k_proj.weight,
        "value_proj.weight": theirs.v_proj.weight,
        "out_proj.weight": theirs.o_proj.weight,
    }
    x = torch.randn(2, N, WIDTH, dtype=torch.float64, generator=generator)
    omegas = 10_000 ** (-torch.arange(0, HEAD_DIM, 2).double() / HEAD_DIM)
    angles = torch.arange(N)[:, None] * omegas
    turns = torch.cat([angles, angles], -1)[None]  # (1, n, d)
    expected = theirs(x, (turns.cos(), turns.sin()), added(masks.causal(N)))[0]
    output = torch.func.functional_call(ours, weights, (x,), {"is_causal": True})
    # Its softmax goes through float32.
    close = {"rtol": 1e-4, "atol": 1e-5}
    assert_same(output, expected, theirs.parameters(), gradients=close, rtol=1e-5, atol=1e-6)
