"""The cache of known models, from their published sizes."""

# --8<-- [start:example]
import torch
from attnref import cost

# layers, key heads, d_k, d_v, tokens of the longest context
MODELS = {
    "GPT-3 175B": (96, 96, 128, 128, 2048),
    "Llama 3.1 8B": (32, 8, 128, 128, 131_072),
    "Llama 3.1 70B": (80, 8, 128, 128, 131_072),
    "Llama 3.1 405B": (126, 8, 128, 128, 131_072),
    # 512 latent and 64 rotary numbers; values are read out of them
    "DeepSeek-V2": (60, 1, 512 + 64, 0, 131_072),
}
print("model           KiB / token  tokens  GiB in all")
for name, (layers, heads, d_k, d_v, tokens) in MODELS.items():
    sizes = cost.Sizes(
        n=1, m=tokens, d_k=d_k, d_v=d_v, num_heads=heads, dtype=torch.float16
    )
    total = layers * sizes.cache_bytes
    print(
        f"{name:14}  {total / tokens / 2**10:11.1f}  {tokens:6}  "
        f"{total / 2**30:10.2f}"
    )
# --8<-- [end:example]
