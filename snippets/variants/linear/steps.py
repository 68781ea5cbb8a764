"""Causal linear attention token by token: a state that does not grow."""

# --8<-- [start:example]
import torch
from attnref.minimal.linear import (
    causal_linear_attention,
    linear_attention_step,
)

n, d = 4096, 64
generator = torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, n, d, generator=generator)
whole = causal_linear_attention(q, k, v)

state, normaliser, outputs = torch.zeros(d, d), torch.zeros(d), []
print("tokens  numbers in the state  in a cache of keys and values")
for t in range(n):
    output, state, normaliser = linear_attention_step(
        q[t], k[t], v[t], state, normaliser
    )
    outputs.append(output)
    if t + 1 in (16, 32, 64, 1024, 4096):
        kept = state.numel() + normaliser.numel()
        print(f"{t + 1:6}  {kept:20}  {(t + 1) * 2 * d:29}")

same = torch.allclose(torch.stack(outputs), whole, atol=1e-4)
print("token by token equals the whole:", same)
# --8<-- [end:example]
