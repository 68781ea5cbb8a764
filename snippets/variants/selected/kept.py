"""How much weight is kept by keys that a mean or the scores choose."""

# --8<-- [start:example]
import torch
from attnref import attention_weights, masks, moba_choice

n, d, B = 512, 32, 16


def tokens(alike):
    """Keys more or less like their neighbours; queries that seek one."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(n, d, generator=generator, dtype=torch.float64)
    key = [steps[0]]
    for step in steps[1:]:
        key.append(alike * key[-1] + (1 - alike**2) ** 0.5 * step)
    key = torch.stack(key)
    sought = (
        torch.rand(n, generator=generator) * torch.arange(1, n + 1)
    ).long()
    noise = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return 2 * key[sought] + noise, key


print("weight kept    64 best   4 of 32 blocks   last 64")
for alike in (0.0, 0.5, 0.9, 0.99):
    query, key = tokens(alike)
    weights = attention_weights(query, key, is_causal=True)[128:]
    best = weights.topk(64).values.sum(-1).mean()
    options = {"block_size": B, "num_blocks": 4, "is_causal": True}
    chosen = moba_choice(query, key, **options).dense()[128:]
    near = masks.sliding_window(n, window=64, is_causal=True).dense()[128:]
    kept = [float((weights * mask).sum(-1).mean()) for mask in (chosen, near)]
    print(f"alike {alike:4} {best:12.3f} {kept[0]:16.3f} {kept[1]:9.3f}")
# --8<-- [end:example]
