"""Three members, three forms: token by token, a square of weights, chunks."""

# --8<-- [start:example]
import torch
from attnref import gated_delta_attention

n, d = 96, 16
generator = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def recurrence(query, key, value, log_decay, beta):
    state, outputs = torch.zeros(d, d, dtype=torch.float64), []
    for t in range(n):
        state = log_decay[t].exp()[:, None] * state
        change = beta[t] * (value[t] - state.T @ key[t])
        state = state + torch.outer(key[t], change)
        outputs += [state.T @ query[t] / d**0.5]
    return torch.stack(outputs)


def square(query, key, value, log_decay, beta):
    upto = log_decay.cumsum(0)  # (n, d)
    decay = (upto[:, None] - upto).exp()  # (n, n, d), right for i >= j
    asked = torch.einsum("id,jd,ijd->ij", query, key, decay).tril()
    told = torch.einsum("id,jd,ijd->ij", key, key, decay).tril(-1)
    corrected = torch.eye(n) + beta[:, None] * told
    weights = asked @ torch.linalg.inv(corrected) * beta
    return weights @ value / d**0.5


query, key, value = normal(n, d), normal(n, d), normal(n, d)
key = torch.nn.functional.normalize(key, dim=-1)
rate = normal(n).sigmoid()
gates = {
    "DeltaNet": torch.zeros(n, d, dtype=torch.float64),
    "Gated DeltaNet": -normal(n, 1).abs().expand(n, d),
    "KDA": -normal(n, d).abs(),
}
for name, gate in gates.items():
    chunks = gated_delta_attention(
        query, key, value, log_decay=gate, beta=rate, block_size=32
    )
    same = [
        torch.allclose(chunks, form(query, key, value, gate, rate))
        for form in (recurrence, square)
    ]
    print(f"{name:15} recurrence {same[0]}, square {same[1]}")
# --8<-- [end:example]
