"""A text alone, and in a batch padded on the left."""

# --8<-- [start:example]
import attnref
import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

torch.manual_seed(0)
llama = LlamaConfig(
    vocab_size=100,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=3,
    num_attention_heads=4,
)
gpt2 = GPT2Config(
    vocab_size=100,
    n_embd=64,
    n_layer=3,
    n_head=4,
    bos_token_id=1,
    eos_token_id=2,
)

ids, mask = torch.randint(3, 100, (2, 12)), torch.ones(2, 12, dtype=torch.long)
mask[0, :4] = 0
inputs = {"input_ids": ids, "attention_mask": mask}

for model in (LlamaForCausalLM(llama).eval(), GPT2LMHeadModel(gpt2).eval()):
    print(f"{type(model).__name__}:")
    for way in ("alone", "cache", "eager"):
        print(f"{way}:", attnref.compare(model, way, inputs))
# --8<-- [end:example]
