"""Top-k attention: dropped mass and error against the number of keys kept."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.topk import topk_attention

n, d = 512, 64
generator = torch.Generator().manual_seed(0)


def waves():
    place = torch.arange(n)[:, None] / n
    phase, speed = torch.rand(2, d, generator=generator)
    turns = (1 + 2 * speed) * place + phase
    return 2 * torch.sin(2 * torch.pi * turns)  # (n, d)


def noise():
    return torch.randn(n, d, generator=generator)


def error(found, exact):
    return float((found - exact).norm() / exact.norm())


def matched():
    key = noise()
    return 3 * key.roll(1, 0) + noise(), key, noise()


counts = (1, 4, 16, 64, 256)
print("tokens            " + "  ".join(f"k = {k:<3}" for k in counts))
for name, (q, k, v) in (
    ("smooth", (waves(), waves(), waves())),
    ("random", (noise(), noise(), noise())),
    ("matched", matched()),
):
    p = attnref.attention_weights(q, k).sort(-1, descending=True).values
    exact = attnref.scaled_dot_product_attention(q, k, v)
    dropped = [1 - float(p[:, :count].sum(-1).mean()) for count in counts]
    errors = [
        error(topk_attention(q, k, v, num_keys=count), exact)
        for count in counts
    ]
    for label, row in (("dropped", dropped), ("error", errors)):
        print(f"{name:7}  {label:7}  " + "  ".join(f"{x:7.4f}" for x in row))
# --8<-- [end:example]
