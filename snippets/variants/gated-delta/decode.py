"""A prompt, then token by token, from a state that does not grow."""

# --8<-- [start:example]
import torch
from attnref import cost, gated_delta_attention, gated_delta_attention_step

h, n, d, prompt = 4, 100, 64, 90
generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, h, n, d, generator=generator)
key = torch.nn.functional.normalize(key, dim=-1)
log_decay, rate = torch.randn(2, h, n, generator=generator)
given = {"log_decay": -log_decay.exp(), "beta": rate.sigmoid()}


def part(begin, end):
    now = slice(begin, end)
    tokens = [x[:, now] for x in (query, key, value)]
    return tokens, {name: x[:, now] for name, x in given.items()}


state, rows = None, []
for begin, end in [(0, prompt), *((t, t + 1) for t in range(prompt, n))]:
    tokens, rules = part(begin, end)
    output, state = gated_delta_attention_step(*tokens, state, **rules)
    rows += [output]

whole = gated_delta_attention(query, key, value, **given)
print("one pass:", torch.allclose(torch.cat(rows, -2), whole, atol=1e-5))
print("numbers in the state of a head:", state[0].numel())
for m in (32, 4096):
    sizes = cost.Sizes(n=1, m=m, d_k=d, d_v=d)
    print(f"in a cache of {m} tokens:", sizes.cache_bytes // 4)
# --8<-- [end:example]
