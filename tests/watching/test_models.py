"""Whole models of Transformers, with random weights: each layer is seen, and none is suspicious."""

import pytest
import torch
import transformers

import attnref
from attnref import oracle
from attnref.text import Refusal
from attnref.watching.findings import Level

transformers.logging.set_verbosity_error()
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 99,
}
DECODER = {**SMALL, "num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0}
PAIR = {
    "d_model": 64,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "vocab_size": 99,
    "decoder_start_token_id": 2,
    "pad_token_id": 0,
}


def tokens():
    """Two samples; the first is padded at the left."""
    ids = torch.randint(3, 99, (2, 11), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    ids[0, :3] = mask[0, :3] = 0
    return {"input_ids": ids, "attention_mask": mask}


def sound():
    return {
        "input_features": torch.zeros(2, 8, 40),
        "decoder_input_ids": torch.full((2, 5), 7),
    }


def picture():
    return {"pixel_values": torch.zeros(1, 3, 32, 32)}


# By model: its configuration, how many places call, how it runs, what it is given.
MODELS = {
    "LlamaForCausalLM": ("LlamaConfig", DECODER, 2, "sdpa", tokens),
    "Gemma3ForCausalLM": ("Gemma3TextConfig", {**DECODER, "sliding_window": 6}, 2, "sdpa", tokens),
    "GptOssForCausalLM": (
        "GptOssConfig",
        {**DECODER, "sliding_window": 6, "num_local_experts": 2, "num_experts_per_tok": 1},
        *(2, "eager", tokens),
    ),
    "BloomForCausalLM": (
        "BloomConfig",
        {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99, "pad_token_id": 0},
        *(2, "eager", tokens),
    ),
    "DebertaV2Model": (
        "DebertaV2Config",
        {**SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        *(2, "eager", tokens),
    ),
    "WhisperModel": (
        "WhisperConfig",
        {**PAIR, "num_mel_bins": 8, "max_source_positions": 20},
        *(3, "eager", sound),
    ),
    "SwinModel": (
        "SwinConfig",
        {
            "image_size": 32,
            "patch_size": 2,
            "embed_dim": 16,
            "depths": [2],
            "num_heads": [2],
            "window_size": 4,
        },
        *(2, "sdpa", picture),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_each_layer_is_seen_and_none_is_suspicious(name):
    config, settings, places, implementation, inputs = MODELS[name]
    torch.manual_seed(0)
    model = getattr(transformers, name)(getattr(transformers, config)(**settings)).eval()
    model.set_attn_implementation(implementation)
    with torch.no_grad(), attnref.watch(model) as seen:
        model(**inputs())
    assert (len(seen.sites), seen.unseen) == (places, {})
    assert [each.say() for each in seen.findings if each.level < Level.OBSERVED] == []


def llama(**settings):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**{**DECODER, "initializer_range": 0.3, **settings})
    return transformers.LlamaForCausalLM(config).eval()


def test_generation_is_seen_as_a_prompt_and_steps_and_weights_are_those_of_eager():
    model, given = llama(), tokens()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        right = model(**given, output_attentions=True).attentions
        model.set_attn_implementation("sdpa")
        with attnref.watch(model) as prompt:
            model(**given)
        with attnref.watch(model) as seen:
            model.generate(**given, max_new_tokens=4, do_sample=False)
    for place, weights in enumerate(right):
        padded, found = weights[0, :, 3:], prompt.weights(place)[:, 3:]
        torch.testing.assert_close(found, padded, atol=1e-6, rtol=1e-5)
    for site in seen.sites.values():
        assert [(way.count, way.m) for way in site.ways.values()] == [(1, (11, 11)), (3, (12, 14))]
        assert len(seen.rows_of(site.name)) == 11  # of the prompt, for a step says less


def unseen(query, key, value, allowed, scale):
    """In NumPy, where nobody sees it, as a kernel of another library would be."""
    key, value = (x.repeat_interleave(2, 1) for x in (key, value))
    found = oracle.attend(*(x.numpy() for x in (query, key, value)), allowed.numpy(), scale=scale)
    return torch.tensor(found.output, dtype=query.dtype).transpose(1, 2), None


def bottom_right(module, query, key, value, attention_mask, scaling=None, sliding_window=None, **_):
    """As FlashAttention's entry: no mask, or one of keys; the last query lies at the last key."""
    n, m = query.shape[2], key.shape[2]
    place = torch.arange(m) - torch.arange(n)[:, None] - (m - n)
    seen = (place <= 0) & (place > -(sliding_window or m + 1))
    if attention_mask is not None:
        seen = seen & attention_mask[:, None, None].bool()
    return unseen(query, key, value, seen, scaling)


def with_mask(module, query, key, value, attention_mask, scaling=None, **_):
    """As any function with a mask of its own."""
    return unseen(query, key, value, attention_mask, scaling)


# By what is registered: the name, the function, and how masks are made for it.
masking = transformers.masking_utils
OTHERS = {
    "no mask": ("flash_of_ours", bottom_right, None),
    "of keys": ("flash_of_ours", bottom_right, masking.flash_attention_mask),
    "of pairs": ("sdpa_of_ours", with_mask, masking.sdpa_mask),
}


@pytest.mark.parametrize(("name", "function", "masks"), OTHERS.values(), ids=OTHERS)
def test_an_entry_of_the_interface_is_read(name, function, masks, monkeypatch):
    functions = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS
    monkeypatch.setitem(functions._global_mapping, name, function)
    if masks is not None:
        made = masking.ALL_MASK_ATTENTION_FUNCTIONS._global_mapping
        monkeypatch.setitem(made, name, masks)
    torch.manual_seed(0)
    config = transformers.MistralConfig(**{**DECODER, "sliding_window": 6})
    model = transformers.MistralForCausalLM(config).eval()
    model.config._attn_implementation_internal = name  # else the library is looked for
    given = tokens()
    if masks is None:
        del given["attention_mask"]
    with torch.no_grad(), attnref.watch(model) as seen:
        model(**given)
    assert (len(seen.sites), seen.missed) == (2, {})
    for site in seen.sites.values():
        (way,) = site.ways.values()
        assert site.statistics.error < 1
        assert str(way.mask.pattern).startswith("causal, window of 6")


def test_one_model_runs_alike_in_each_of_its_ways():
    model, given = llama(), tokens()
    for way in ("alone", "cache", "eager"):
        assert attnref.compare(model, way, given).same, way


def test_the_module_and_the_argument_that_differ_are_named():
    model, other, given = llama(), llama(), tokens()
    layer = other.model.layers[1].self_attn
    layer.scaling *= 1.1
    found = attnref.compare(model, other, given)
    assert found.name == "model.layers.1.self_attn.o_proj"
    assert "different values of scale: 0.25 in the first run, 0.275 in the second" in found.text()
    layer.scaling /= 1.1
    forward = layer.forward

    def without_mask(*tensors, attention_mask=None, **options):
        return forward(*tensors, attention_mask=None, **options)

    layer.forward = without_mask
    assert "different masks: in sample 0, query 3 sees key 0 only in the second run" in (
        attnref.compare(model, other, given).text()
    )


def test_positions_that_padding_moves_part_before_any_attention():
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_embd=64, n_layer=1, n_head=4, vocab_size=99)
    found = attnref.compare(transformers.GPT2LMHeadModel(config).eval(), "alone", tokens())
    assert (found.name, found.same) == ("transformer.drop", False)
    assert "No attention ran before it" in found.text()


def test_padding_that_a_layer_sees_is_the_reason_for_another_result_alone():
    model, given = llama(), tokens()
    layer = model.model.layers[1].self_attn
    forward = layer.forward

    def without_padding(*tensors, attention_mask=None, **options):
        second = None if attention_mask is None else attention_mask[1:]
        return forward(*tensors, attention_mask=second, **options)

    layer.forward = without_padding
    for kind in (torch.float32, torch.bfloat16):
        found = attnref.compare(model.to(kind), "alone", given)
        assert found.name == "model.layers.1.self_attn.o_proj"
        assert "sample 0, query 3 sees key 0 only in the first run" in found.text()


def test_two_models_are_told_by_their_parameters_and_dropout_by_its_share():
    x = torch.randn(2, 4, 9, generator=torch.Generator().manual_seed(0))
    one, other = (torch.nn.Conv1d(4, 8, 3).eval() for _ in range(2))
    found = attnref.compare(one, other, x)
    assert (found.same, "Its own parameters differ" in found.text()) == (False, True)
    assert attnref.compare(one, one, x).same

    class Dropping(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)

    dropping = Dropping().eval()
    assert "drops weights at random (p = 0.5)" in attnref.compare(dropping, dropping, x).text()
    nothing = attnref.compare(torch.nn.Flatten(0).eval(), "alone", x)
    assert (nothing.same, str(nothing)[:29]) == (False, "No module could be compared: ")


def test_what_cannot_be_compared_is_refused():
    model = llama()
    with pytest.raises(Refusal, match="expected a tensor of"):
        attnref.compare(model, "alone", {"pixels": torch.zeros(1)})
    given = tokens()
    given["attention_mask"][1] = 0
    with pytest.raises(Refusal, match="sample 1 consists of padding only"):
        attnref.compare(model, "alone", given)
    one = torch.nn.Linear(2, 2).eval()
    with pytest.raises(Refusal, match="share no name with those of the first model"):
        attnref.compare(one, torch.nn.Sequential(one).eval(), torch.zeros(1, 2))
    with pytest.raises(Refusal, match=r"expected a model, one of alone, cache"):
        attnref.compare(one, "quickly", torch.zeros(1, 2))
    with pytest.raises(Refusal, match=r"Call model\.eval"):
        attnref.compare(model.train(), "alone", tokens())
