"""Causal linear attention token by token: a state that does not grow."""

# --8<-- [start:example]
import torch
from attnref import linear_attention, linear_attention_step

n, d = 4096, 64
generator = torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, n, d, generator=generator)
whole = linear_attention(q, k, v, is_causal=True)

state, outputs = None, []
print("tokens  numbers in the state  in a cache of keys and values")
for t in range(n):
    token = slice(t, t + 1)
    output, state = linear_attention_step(q[token], k[token], v[token], state)
    outputs.append(output)
    if t + 1 in (16, 32, 64, 1024, 4096):
        kept = state.key_value.numel() + state.normaliser.numel()
        print(f"{t + 1:6}  {kept:20}  {(t + 1) * 2 * d:29}")

same = torch.allclose(torch.cat(outputs), whole, atol=1e-4)
print("token by token equals the whole:", same)
# --8<-- [end:example]
