"""Chosen tokens and blocks against the layer of DeepSeek-V3.2 and flash-linear-attention's code."""

import sys
from types import ModuleType

import pytest
import torch

from attnref import masks
from attnref.variants.indexer import indexer_attention
from attnref.variants.native_sparse import native_sparse_attention, native_sparse_choice

# The indexer of a layer --------------------------------------------------------------------------

BATCH, N, WIDTH, H, D_K, D_R, D_V, D_C = 2, 29, 24, 3, 7, 4, 5, 11
H_I, D_I, COUNT = 2, 13, 6
# Softmax and ranking are computed in float32, whatever the layer: a weight errs by some 6 roundings
# of 6e-8, and what is compared are sums of them over terms of size 1.
CLOSE = {"rtol": 0.0, "atol": 3e-6}


@pytest.fixture
def layer(drawn):
    pytest.importorskip("transformers", reason="transformers is not installed")
    from transformers.models.deepseek_v32.configuration_deepseek_v32 import DeepseekV32Config
    from transformers.models.deepseek_v32.modeling_deepseek_v32 import DeepseekV32Attention

    config = DeepseekV32Config(
        hidden_size=WIDTH,
        num_attention_heads=H,
        num_key_value_heads=H,
        q_lora_rank=17,
        kv_lora_rank=D_C,
        qk_nope_head_dim=D_K,
        qk_rope_head_dim=D_R,
        v_head_dim=D_V,
        index_topk=COUNT,
        index_head_dim=D_I,
        index_n_heads=H_I,
        attn_implementation="eager",
    )
    return drawn(DeepseekV32Attention(config, layer_idx=0))


def ours(layer, tokens):
    """The same layer, with its weights: what it makes of the tokens, then our function."""
    residual = layer.q_a_layernorm(layer.q_a_proj(tokens))
    query = layer.q_b_proj(residual).unflatten(-1, (H, D_K + D_R)).transpose(1, 2)
    latent, key_rotary = layer.kv_a_proj_with_mqa(tokens).split([D_C, D_R], -1)
    made = layer.kv_b_proj(layer.kv_a_layernorm(latent)).unflatten(-1, (H, D_K + D_V))
    key, value = made.transpose(1, 2).split([D_K, D_V], -1)  # (b, h, n, d)
    key = torch.cat([key, key_rotary[:, None].expand(-1, H, -1, -1)], -1)
    indexer = layer.indexer
    output = indexer_attention(
        query,
        key,
        value,
        indexer.wq_b(residual).unflatten(-1, (H_I, D_I)).transpose(1, 2),
        indexer.k_norm(indexer.wk(tokens)),
        indexer.weights_proj(tokens).mT,
        num_keys=COUNT,
        is_causal=True,
    )
    return layer.o_proj(output.transpose(1, 2).flatten(-2))


@pytest.mark.claim("indexer-is-deepseeks-layer")
def test_output_and_gradients_are_those_of_the_layer(layer, randn, added, assert_same):
    """All tokens at position 0, where a rotation changes nothing."""
    tokens = randn(BATCH, N, WIDTH).requires_grad_()
    angles = torch.zeros(1, N, D_R, dtype=tokens.dtype, device=tokens.device)
    mask = added(masks.causal(N)).expand(BATCH, 1, N, N)
    theirs = layer(tokens, (angles.cos(), angles.sin()), mask)[0]
    assert_same(
        ours(layer, tokens), theirs, [tokens], gradients={"rtol": 0.0, "atol": 3e-5}, **CLOSE
    )


# Native sparse attention -------------------------------------------------------------------------

B, HEADS, KEY_HEADS = 4, 6, 2


@pytest.fixture
def naive(fla, monkeypatch):
    """The file, with empty stand-ins for what it imports and does not call here."""
    names = {"fla.ops.utils": "prepare_chunk_offsets", "fla.ops.utils.pooling": "mean_pooling"}
    for name in ("fla.ops", *names):
        module = ModuleType(name)
        if name in names:
            setattr(module, names[name], None)
        monkeypatch.setitem(sys.modules, name, module)
    return fla("nsa")


@pytest.mark.filterwarnings("ignore:Flash Attention is not installed")
@pytest.mark.parametrize("count", [3, 4, 7])
def test_choice_summaries_and_blocks_are_those_of_flash_linear_attention(count, naive, randn):
    """Theirs is in float32 and has tokens before heads, and forces the same three blocks."""
    n = 37
    query, key, value = randn(2, HEADS, n, 7), randn(2, KEY_HEADS, n, 7), randn(2, KEY_HEADS, n, 7)
    whole = [
        torch.cat([x[..., i : i + B, :].mean(-2, keepdim=True) for i in range(0, n, B)], -2)
        for x in (key, value)
    ]
    q, k, v, k_cmp, v_cmp = (x.transpose(1, 2).float() for x in (query, key, value, *whole))
    scale = 7**-0.5
    chosen = naive.naive_nsa_topk(q, k_cmp, count, B, scale)  # (b, n, h_kv, count)
    mask = native_sparse_choice(query, key, block_size=B, num_blocks=count, enable_gqa=True)
    blocks = mask.dense(query.device)[..., ::B][
        :, :: HEADS // KEY_HEADS
    ]  # its first key says of each block
    for index in range(-(-n // B)):
        theirs = (chosen == index).any(-1).transpose(1, 2)  # (b, h_kv, n)
        assert torch.equal(blocks[..., index], theirs)

    first, _ = naive.naive_nsa_compression(q, k_cmp, v_cmp, B, scale)
    second = naive.naive_nsa_selection(q, k, v, chosen, B, scale)
    for term, theirs in enumerate((first, second)):
        gates = torch.zeros(3, dtype=query.dtype, device=query.device)
        gates[term] = 1.0
        found = native_sparse_attention(
            query, key, value, gates, block_size=B, num_blocks=count, window=1, enable_gqa=True
        )
        torch.testing.assert_close(found.transpose(1, 2).float(), theirs, rtol=0, atol=3e-6)
