"""Models of Transformers say on the definition what they say on their own attention."""

from functools import partial
from unittest.mock import patch

import pytest
import torch

pytest.importorskip("transformers")

import transformers

import attnref.integrations.transformers as ours

B, N, M = 2, 11, 13  # samples, tokens, keys from elsewhere
NAMES = {
    1: "n_group topk_group first_k_dense_replace bos_token_id decoder_start_token_id",
    2: "num_hidden_layers num_layers num_decoder_layers encoder_layers decoder_layers "
    "num_key_value_heads num_experts_per_tok index_n_heads linear_num_key_heads",
    4: "num_attention_heads num_heads encoder_attention_heads decoder_attention_heads patch_size "
    "n_routed_experts num_experts num_local_experts qk_rope_head_dim linear_num_value_heads",
    6: "head_dim d_kv qk_nope_head_dim linear_key_head_dim linear_value_head_dim index_topk",
    12: "image_size index_head_dim kv_lora_rank q_lora_rank v_head_dim num_mel_bins",
    20: "intermediate_size encoder_ffn_dim decoder_ffn_dim d_ff moe_intermediate_size",
    24: "hidden_size shared_expert_intermediate_size",
    64: "max_position_embeddings max_source_positions",
    97: "vocab_size",
}
SIZES = {name: size for size, names in NAMES.items() for name in names.split()}
SIZES |= {"pad_token_id": 0, "eos_token_id": None}
WINDOW, LATENT = {"sliding_window": 4}, {"num_key_value_heads": 4, "head_dim": 4}
COMPRESSED = ["compressed_sparse_attention", "heavily_compressed_attention"]
V4 = {"layer_types": COMPRESSED, "compress_rates": dict.fromkeys(COMPRESSED, 2)}
MODELS = {
    "LlamaForCausalLM": {},
    "MistralForCausalLM": WINDOW,
    "Gemma2ForCausalLM": WINDOW | {"attn_logit_softcapping": 2.0},
    "Gemma3ForCausalLM": WINDOW,
    "GptOssForCausalLM": WINDOW,  # with sinks
    "Llama4ForCausalLM": {"attention_chunk_size": 4},
    "Qwen3NextForCausalLM": {"num_hidden_layers": 4},
    "DeepseekV3ForCausalLM": LATENT,
    "DeepseekV32ForCausalLM": LATENT,  # passes the indices of the keys that it has chosen
    # appends to its masks what its compressed keys forbid, as numbers
    "DeepseekV4ForCausalLM": WINDOW | V4 | {"head_dim": 8, "num_key_value_heads": 1},
    "GPT2LMHeadModel": {"add_cross_attention": True},
    "BertForMaskedLM": {},
    "T5ForConditionalGeneration": {},
    "WhisperForConditionalGeneration": {},
    "ViTModel": {},
}


def build(name):
    """A model in float32 whose weights are drawn, so that no softmax is flat."""
    kind, generator = getattr(transformers, name), torch.Generator().manual_seed(0)
    model = kind(kind.config_class(**SIZES | MODELS[name])).eval()
    for parameter in model.parameters():
        drawn, flat = torch.randn(parameter.shape, generator=generator), parameter.dim() < 2
        parameter.data = 1 + 0.3 * drawn if flat else drawn / parameter.shape[-1] ** 0.5
    return model


@torch.no_grad()
def ask(name, model):
    """What a model says of tokens, some padded on the left, and then by itself, with a cache."""
    randn = partial(torch.randn, generator=torch.Generator().manual_seed(1))
    ids, mask = randn(B, N).mul(30).long() % 97, torch.ones(B, N).bool()
    mask[0, :3] = False
    text = {"input_ids": ids, "attention_mask": mask}
    if name.startswith("ViT"):
        return [model(randn(B, 3, 12, 12)).last_hidden_state]
    if name.startswith("Whisper"):
        return [model(randn(B, 12, 128), decoder_input_ids=ids).logits]
    if name.startswith("GPT2"):
        keys = torch.arange(M) < torch.tensor([[M], [M - 2]])
        text |= {"encoder_hidden_states": randn(B, M, 24), "encoder_attention_mask": keys}
    said = [] if name.startswith("T5") else [model(**text).logits[mask]]
    if name.startswith(("Bert", "GPT2")):
        return said
    options = {"max_new_tokens": 4, "do_sample": False, "return_dict_in_generate": True}
    return [*said, *model.generate(**text, **options, output_logits=True).logits]


@pytest.mark.parametrize("name", MODELS)
def test_models_say_the_same(name):
    """Up to 50 roundings of float32 at the largest logit; 11 were seen."""
    model = build(name)
    model.set_attn_implementation("eager")
    expected = ask(name, model)
    model.set_attn_implementation("attnref")
    with patch.object(ours, "attend", wraps=ours.attend) as definition:
        found = ask(name, model)
    assert definition.called
    size = max(float(logits.abs().max()) for logits in expected)
    close = {"rtol": 0, "atol": 50 * torch.finfo(torch.float32).eps * size}
    torch.testing.assert_close(found, expected, **close)


@torch.no_grad()
def test_packed_sequences_do_not_meet():
    model = build("MistralForCausalLM")
    model.set_attn_implementation("attnref")
    texts = torch.arange(5, 5 + N)[None], torch.arange(50, 50 + M)[None]
    starts, places = torch.tensor([0, N, N + M]), [torch.arange(N), torch.arange(M)]
    packing = {"cu_seq_lens_q": starts, "cu_seq_lens_k": starts, "max_length_q": M}
    packing["seq_idx"] = torch.tensor([[0] * N + [1] * M])
    packing["position_ids"] = torch.cat(places)[None]
    together = model(torch.cat(texts, 1), use_cache=False, **packing).logits[0]
    alone = torch.cat([model(text).logits[0] for text in texts])
    torch.testing.assert_close(together, alone, rtol=0, atol=2e-5)  # some ten roundings of 4.0
    with pytest.raises(ValueError, match="cu_seq_lens_q: expected an attention_mask that keeps"):
        model(torch.cat(texts, 1), use_cache=True, **packing)  # then the mask joins them


def test_a_model_that_computes_its_own_attention_is_refused():
    config = transformers.BloomConfig(vocab_size=7, hidden_size=6, n_layer=1, n_head=2)
    model = transformers.AutoModel.from_config(config, attn_implementation="attnref")
    with pytest.raises(NotImplementedError, match="interface, got bloom, which computes its own"):
        model(torch.tensor([[1, 2, 3]]))
