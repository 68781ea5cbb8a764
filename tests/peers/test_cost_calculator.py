"""The sizes of models in the cost calculator: by Transformers, and by programs of other pages."""

import re
import runpy

import pytest
import torch

from book.stage import explorers
from tests.variants.every import every

MODELS = explorers.source(explorers.FOLDER / "cost").MODELS
SNIPPETS = explorers.ROOT / "snippets"
CONFIGURATIONS = {
    "bert-base": "BertConfig",
    "gpt-2": "GPT2Config",
    "gpt-j": "GPTJConfig",
    "falcon-7b": "FalconConfig",
    "gemma-7b": "GemmaConfig",
    "llama-2-7b": "LlamaConfig",
    "mistral-7b": "MistralConfig",
    "gpt-oss-120b": "GptOssConfig",
    "deepseek-v3": "DeepseekV3Config",
}
HIDDEN = {"llama-3.1-8b": 14_336, "llama-3.1-70b": 28_672, "llama-3.1-405b": 53_248}


@pytest.mark.claim("calculator-knows-models")
@every("name", CONFIGURATIONS)
def test_the_sizes_are_the_defaults_of_transformers(name):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = getattr(transformers, CONFIGURATIONS[name])()
    heads, width = config.num_attention_heads, config.hidden_size
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or width // heads
    if name == "falcon-7b":  # its option that all heads share one
        assert config.multi_query
        assert not config.new_decoder_architecture
        kv_heads = 1
    if name == "deepseek-v3":  # there head_dim is the width of the rotated part
        assert config.qk_rope_head_dim == 64
        assert config.qk_nope_head_dim == config.v_head_dim
        head_dim = config.v_head_dim
    before = getattr(config, "q_lora_rank", 0)
    expected = (config.num_hidden_layers, width, heads, kv_heads, head_dim, before)
    assert MODELS[name][1:7] == expected


@pytest.mark.claim("calculator-knows-weights")
@every("name", MODELS)
def test_the_parameters_are_those_of_the_models_of_transformers(name):
    """Which are made without memory; a table that two layers share is counted once."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    _, layers, width, heads, kv_heads, *_, parameters = MODELS[name]
    kind, settings = CONFIGURATIONS.get(name), {}
    if name == "gpt-3":  # the words of GPT-2
        kind = "GPT2Config"
        settings = {"n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": 2048}
    if name in HIDDEN:
        kind = "LlamaConfig"
        settings = {
            "num_hidden_layers": layers,
            "hidden_size": width,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "intermediate_size": HIDDEN[name],
            "vocab_size": 128_256,
        }
    of = transformers.AutoModelForMaskedLM if "bert" in name else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = of.from_config(getattr(transformers, kind)(**settings))
    assert sum(one.numel() for one in model.parameters()) == parameters


@pytest.mark.claim("calculator-knows-models")
def test_a_layer_of_falcon_has_one_key_head_and_the_latent_one_the_projections_counted():
    pytest.importorskip("transformers", reason="transformers is not installed")
    from transformers import DeepseekV3Config, FalconConfig
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention
    from transformers.models.falcon.modeling_falcon import FalconAttention

    module = explorers.source(explorers.FOLDER / "cost")
    state = {**module.STATE, "phase": "decoding"}
    with torch.device("meta"):
        falcon = FalconAttention(FalconConfig(), layer_idx=0)
        deepseek = DeepseekV3Attention(DeepseekV3Config(), layer_idx=0)

    def weights(layer, leave=()):
        """Each is used for a multiplication and an addition of a token."""
        linear = (
            one
            for name, one in layer.named_modules()
            if isinstance(one, torch.nn.Linear) and name not in leave
        )
        return 2 * sum(one.weight.numel() for one in linear)

    counted = module.projections(state | {"model": "falcon-7b"}, "grouped", 8)
    assert counted.operations.matmul == weights(falcon)
    counted = module.projections(state | {"model": "deepseek-v3"}, "latent", 8)
    # kv_b_proj makes keys and values of latents: the core does that, or is absorbed by it.
    assert counted.operations.matmul == weights(deepseek, leave=("kv_b_proj",))


@pytest.mark.claim("what-weights-leave")
@every("attention", ("grouped", "multi-head", "multi-query", "latent"))
def test_what_the_weights_leave_of_the_memory_is_shared_by_tokens_or_by_sequences(attention):
    module = explorers.source(explorers.FOLDER / "cost")
    state = {**module.STATE, "attention": attention, "model": "llama-3.1-8b", "n": 131_072}
    for changed in ({}, {"dtype": "float8_e4m3fn"}, {"machine": "B200"}, {"n": 8191}):
        of = state | changed
        size = module.DTYPES[of["dtype"]].itemsize
        free = module.GIGABYTES[of["machine"]] * 10**9 - 8_030_261_248 * size
        token = module.cache(of, attention, 1)
        if attention == "grouped":  # keys and values of 8 heads of 128 numbers, in 32 layers
            assert token == 2 * 8 * 128 * 32 * size
        found = module.fit(of)
        assert found["room-tokens"] == free // token
        assert found["room-batch"] == free // (token * of["n"])
        assert (found["machines"] == 1) == (free >= token * of["n"])
    assert module.fit(state | {"attention": "grouped"})["room-tokens"] == 487_819
    for bounded in ("window", "linear"):
        assert "room-tokens" not in module.fit(state | {"attention": bounded})


def test_the_other_sizes_are_those_of_other_pages():
    ours = {sizes[0]: sizes for sizes in MODELS.values()}
    key_of = {sizes[0]: key for key, sizes in MODELS.items()}
    caches = runpy.run_path(str(SNIPPETS / "foundations/kv-cache/models.py"))["MODELS"]
    shares = runpy.run_path(str(SNIPPETS / "complexity/when-quadratic/models.py"))["MODELS"]
    names = {"GPT-3 175B", "Llama 3.1 8B", "Llama 3.1 70B", "Llama 3.1 405B"}
    assert names <= caches.keys() & shares.keys() & ours.keys()
    for name in names:
        _, layers, width, heads, kv_heads, head_dim, before, _ = ours[name]
        assert caches[name][:4] == (layers, kv_heads, head_dim, head_dim)
        assert shares[name][:3] == (width, heads, kv_heads)
        assert shares[name][3] == HIDDEN.get(key_of[name], 4 * width)
        assert (head_dim, before) == (width // heads, 0)


def test_every_model_is_compared_with_something():
    others = {name for name in MODELS if re.match(r"gpt-3|llama-3", name)}
    assert CONFIGURATIONS.keys() | others == MODELS.keys()


def test_the_speeds_are_those_of_the_page_about_the_roofline():
    module = explorers.source(explorers.FOLDER / "cost")
    a100 = (SNIPPETS / "complexity/roofline/a100.py").read_text("utf-8")
    units = (SNIPPETS / "complexity/roofline/units.py").read_text("utf-8")
    plain = (SNIPPETS / "complexity/roofline/attention.py").read_text("utf-8")
    assert 'Machine("A100", {half: 312e12}, bytes_per_second=2.0e12)' in a100
    assert 'Machine("H100", {half: 989e12}, 3.35e12, exponentials_per_second=3.9e12)' in units
    assert "{half: 2.25e15},\n        8e12" in units
    assert "exponentials_per_second=2.25e15 * 16 / 8192" in units
    assert 'Machine("example", {half: 1e14}, bytes_per_second=1e12)' in plain
    assert module.MACHINES == {
        "A100": (312.0, 2.0, None),
        "H100": (989.0, 3.35, 3.9),
        "B200": (2250.0, 8.0, 2250.0 * 16 / 8192),
        "example": (100.0, 1.0, None),
    }
    assert module.GIGABYTES.keys() == module.MACHINES.keys()
