"""The layer of DiffLlama in the Transformers library, in values and gradients."""

import pytest
import torch

from attnref import LearnedLambda, differential_attention, masks, positions

diffllama = pytest.importorskip(
    "transformers.models.diffllama.modeling_diffllama", reason="transformers is not installed"
)
N, HEADS, KV_HEADS, HEAD_DIM = 13, 4, 2, 6


@pytest.mark.claim("differential-is-diffllama")
def test_outputs_and_gradients_of_a_layer(generator, added, assert_same):
    """Its heads come in two halves: the first map of all heads, then the second of all."""
    layer_index = 2
    config = diffllama.DiffLlamaConfig(
        hidden_size=23,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        rms_norm_eps=1e-5,
    )
    config._attn_implementation = "eager"
    layer = diffllama.DiffLlamaAttention(config, layer_idx=layer_index).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.4, generator=generator)
    x = torch.randn(2, N, 23, dtype=torch.float64, generator=generator)
    omegas = 10_000 ** (-torch.arange(0, HEAD_DIM, 2).double() / HEAD_DIM)
    angles = torch.arange(N)[:, None] * omegas
    turns = torch.cat([angles, angles], -1)[None]  # (1, n, d)
    theirs = layer(x, (turns.cos(), turns.sin()), added(masks.causal(N)))[0]

    def heads(linear):
        return linear(x).unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2)

    def side_by_side(tensor):
        return torch.cat(tensor.chunk(2, dim=1), dim=-1)  # (b, h / 2, n, 2 d)

    query, key = (
        positions.rotary_half_split(heads(linear)) for linear in (layer.q_proj, layer.k_proj)
    )
    # There, each key head serves two query heads, and the values of both halves are one head's.
    whole = HEADS // KV_HEADS
    key, value = key.repeat_interleave(whole, 1), side_by_side(heads(layer.v_proj))
    value = value.repeat_interleave(whole, 1)
    initial = LearnedLambda(1, layer=layer_index + 1).initial  # it counts layers from 0
    lambd = (
        (layer.lambda_q1 * layer.lambda_k1).sum().exp()
        - (layer.lambda_q2 * layer.lambda_k2).sum().exp()
        + initial
    )
    output = differential_attention(
        side_by_side(query), side_by_side(key), value, lambd=lambd, is_causal=True
    )
    normed = (1 - initial) * torch.nn.functional.rms_norm(output, (2 * HEAD_DIM,), eps=1e-5)
    ours = layer.o_proj(normed.transpose(1, 2).flatten(2))
    # Its lambda goes through float32.
    close = {"rtol": 1e-4, "atol": 1e-5}
    assert_same(ours, theirs, layer.parameters(), gradients=close, rtol=1e-5, atol=1e-6)
