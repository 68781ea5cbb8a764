"""Which attention the layers of known models have, by the configurations of Transformers."""

import pytest

transformers = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.mark.claim("layers-of-known-models")
def test_deepseek_reads_latents_of_512_numbers_and_64_for_the_position():
    config = transformers.DeepseekV3Config()
    assert (config.kv_lora_rank, config.qk_rope_head_dim) == (512, 64)


@pytest.mark.claim("layers-of-known-models")
def test_deepseek_v32_chooses_2048_keys_by_64_heads_of_width_128():
    config = transformers.DeepseekV32Config()
    assert (config.index_topk, config.index_n_heads, config.index_head_dim) == (2048, 64, 128)
    assert (config.kv_lora_rank, config.qk_rope_head_dim) == (512, 64)


@pytest.mark.claim("layers-of-known-models")
@pytest.mark.claim("hybrids-keep-full-layers")
def test_every_fourth_layer_of_qwen3_next_has_softmax_attention_and_a_gate():
    config = transformers.Qwen3NextConfig()
    kinds = config.layer_types
    assert len(kinds) == config.num_hidden_layers > 4
    for number, kind in enumerate(kinds, 1):
        assert kind == ("linear_attention" if number % 4 else "full_attention")
    from transformers.models.qwen3_next import modeling_qwen3_next

    layer = modeling_qwen3_next.Qwen3NextAttention(config, layer_idx=3)
    heads = config.num_attention_heads * config.head_dim
    assert layer.q_proj.out_features == 2 * heads  # queries, and a gate for each of their numbers
    assert layer.o_proj.in_features == heads


@pytest.mark.claim("layers-of-known-models")
def test_every_layer_of_diffllama_subtracts_and_t5_has_a_number_for_each_class_and_head():
    from transformers.models.diffllama import modeling_diffllama

    config = transformers.DiffLlamaConfig(hidden_size=24, num_attention_heads=4)
    for number in (0, 3):
        layer = modeling_diffllama.DiffLlamaAttention(config, layer_idx=number)
        assert layer.lambda_q1.shape == layer.lambda_k2.shape == (config.head_dim,)
    from transformers.models.t5 import modeling_t5

    config = transformers.T5Config()
    table = modeling_t5.T5Attention(
        config, has_relative_attention_bias=True
    ).relative_attention_bias
    assert table.weight.shape == (config.relative_attention_num_buckets, config.num_heads)


@pytest.mark.claim("hybrids-keep-full-layers")
def test_every_layer_of_minimax_m2_is_full():
    minimax = transformers.models.minimax_m2.modeling_minimax_m2
    sizes = {"num_hidden_layers": 5, "hidden_size": 12, "num_attention_heads": 2, "head_dim": 6}
    config = transformers.MiniMaxM2Config(
        **sizes, num_key_value_heads=1, num_local_experts=2, intermediate_size=7, vocab_size=200100
    )
    layers = minimax.MiniMaxM2Model(config).layers
    assert len(layers) == 5
    for layer in layers:
        assert type(layer.self_attn) is minimax.MiniMaxM2Attention
        assert getattr(layer.self_attn, "sliding_window", None) is None
