"""A small Llama, with random weights, and a batch that is padded."""

# --8<-- [start:example]
import attnref
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=100,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    initializer_range=0.3,
)
model = LlamaForCausalLM(config).eval()

ids, mask = torch.randint(3, 100, (2, 12)), torch.ones(2, 12, dtype=torch.long)
mask[0, :4] = 0  # the first text is four tokens shorter

with torch.no_grad(), attnref.watch(model) as seen:
    model(input_ids=ids, attention_mask=mask)

print(seen)
weights = seen.weights("model.layers.1.self_attn", head=2)
print(weights.shape, weights[-1, 4:].sum().round(decimals=6))
# --8<-- [end:example]
