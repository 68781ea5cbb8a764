"""Latent attention against the layer of DeepSeek-V3 as Transformers has it."""

import pytest
import torch

from attnref import KVCache, masks
from attnref.positions import rotary
from attnref.variants.latent import latent_attention

pytest.importorskip("transformers")

from transformers.models.deepseek_v3.configuration_deepseek_v3 import DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention

B, N, WIDTH, H, D_K, D_R, D_V, D_C = 2, 13, 24, 3, 7, 4, 5, 11
# Its softmax is computed in float32, whatever the layer: a weight errs by some 6 roundings of
# 6e-8, and what is compared are sums of them over terms of size 1. A wrong term moves it by tenths.
CLOSE = {"rtol": 0.0, "atol": 3e-6}


@pytest.fixture
def layer(drawn):
    config = DeepseekV3Config(
        hidden_size=WIDTH,
        num_attention_heads=H,
        num_key_value_heads=H,
        q_lora_rank=17,
        kv_lora_rank=D_C,
        qk_nope_head_dim=D_K,
        qk_rope_head_dim=D_R,
        v_head_dim=D_V,
        rope_interleave=True,
        attn_implementation="eager",
    )
    return drawn(DeepseekV3Attention(config, layer_idx=0))


def made(layer, tokens):
    """What the layer makes of the tokens: queries, latents, rotary keys, and its two matrices."""
    query = layer.q_b_proj(layer.q_a_layernorm(layer.q_a_proj(tokens)))
    query = query.unflatten(-1, (H, D_K + D_R)).transpose(1, 2)  # (b, h, n, d_k + d_r)
    latent, key_rotary = layer.kv_a_proj_with_mqa(tokens).split([D_C, D_R], -1)
    ups = layer.kv_b_proj.weight.unflatten(0, (H, D_K + D_V)).split([D_K, D_V], 1)
    return query.split([D_K, D_R], -1), layer.kv_a_layernorm(latent), key_rotary, ups


def theirs(layer, tokens, mask):
    omegas = 10_000 ** (-torch.arange(0, D_R, 2).double() / D_R)
    angles = torch.arange(N, device=tokens.device)[:, None] * omegas.to(tokens)
    angles = torch.cat([angles, angles], -1)[None]  # (1, n, d_r)
    return layer(tokens, (angles.cos(), angles.sin()), mask[None, None])[0]


@pytest.mark.claim("latent-is-deepseeks-layer")
@pytest.mark.parametrize("absorb", [True, False])
def test_output_and_gradients_are_those_of_the_layer(absorb, layer, randn, added, assert_same):
    tokens = randn(B, N, WIDTH).requires_grad_()
    (query, turned), latent, key_rotary, ups = made(layer, tokens)
    found = latent_attention(
        query,
        latent,
        *ups,
        query_rotary=rotary(turned),
        key_rotary=rotary(key_rotary),
        is_causal=True,
        scale=layer.scaling,
        absorb=absorb,
    )
    found = layer.o_proj(found.transpose(1, 2).flatten(-2))
    expected = theirs(layer, tokens, added(masks.causal(N)))
    assert_same(found, expected, (tokens, *layer.parameters()), **CLOSE)


def test_steps_from_latents_are_the_layers_rows(layer, randn, added):
    tokens = randn(B, N, WIDTH)
    (query, turned), latent, key_rotary, ups = made(layer, tokens)
    cache, rows = KVCache(), []
    for place in range(N):
        now = slice(place, place + 1)
        latents, keys = cache.append(latent[:, now], rotary(key_rotary[:, now], offset=place))
        rows.append(
            latent_attention(
                query[..., now, :],
                latents,
                *ups,
                query_rotary=rotary(turned[..., now, :], offset=place),
                key_rotary=keys,
                scale=layer.scaling,
                absorb=True,
            )
        )
    found = layer.o_proj(torch.cat(rows, -2).transpose(1, 2).flatten(-2))
    torch.testing.assert_close(found, theirs(layer, tokens, added(masks.causal(N))), **CLOSE)
