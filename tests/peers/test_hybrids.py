"""Which layers of models in the Transformers library have full attention."""

import pytest

transformers = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.mark.claim("hybrids-keep-full-layers")
def test_every_fourth_layer_of_qwen3_next_is_full():
    kinds = transformers.Qwen3NextConfig().layer_types
    assert len(kinds) > 4
    for number, kind in enumerate(kinds, 1):
        assert kind == ("linear_attention" if number % 4 else "full_attention")


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
