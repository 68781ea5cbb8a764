"""Dividing by the layer number: undone, it is nothing; kept, another model."""

# --8<-- [start:example]
import torch
from attnref import softmax

n, d_k, layer = 64, 64, 12
generator = torch.Generator().manual_seed(0)
q, k = torch.randn(2, n, d_k, generator=generator)
usual = q @ k.mT / d_k**0.5
divided = q @ k.mT / (d_k**0.5 * layer)

for name, scores in {
    "the usual factor": usual,
    "divided, then multiplied back": divided * layer,
    "divided by the layer number": divided,
}.items():
    p = softmax.stable(scores)
    same = torch.allclose(p, softmax.stable(usual), rtol=1e-4)
    keys = softmax.entropy(p).exp().mean()
    print(f"{name:30} keys {keys:4.1f}, the usual weights: {same}")

large = torch.tensor(64 * 100.0 * 100.0)  # q·k of two rows of 100
print("kept in float16:", (large / 8).half().item())
print("divided by 12:  ", (large / 8 / layer).half().item())
# --8<-- [end:example]
