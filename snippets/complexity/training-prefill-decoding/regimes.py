"""One layer in three regimes: operations, bytes, and their ratio."""

# --8<-- [start:example]
import torch
from attnref import cost

width, heads, d, hidden, half = 4096, 32, 128, 16_384, torch.float16


def layer(n, m, batch):
    """The last n of m tokens, through attention and feed-forward."""
    sizes = cost.Sizes(
        n=n, m=m, d_k=d, d_v=d, batch=batch, num_heads=heads, dtype=half
    )
    pairs = cost.allowed_pairs(n, m, window=(None, m - n))
    core = cost.of("fused", sizes, pairs=pairs)
    attention = cost.multihead(sizes, width, core)
    tokens = batch * n
    return attention + cost.feedforward(tokens, width, hidden, dtype=half)


def report(name, spent, tokens):
    products = spent.operations.matmul / tokens
    print(
        f"{name:22}  {products / 1e6:6.0f}  "
        f"{spent.bytes_moved / tokens / 1e6:8.3f}  {spent.intensity:6.1f}"
    )


print("                         per token:")
print("                        M ops.   MB moved  intensity")
report("prefill of 4096", layer(4096, 4096, 1), 4096)
report("training on 4096", layer(4096, 4096, 1) * 3, 4096)
for batch in (1, 8, 64):
    name = f"decoding, batch {batch}"
    report(name, layer(1, 4096, batch), batch)
# --8<-- [end:example]
