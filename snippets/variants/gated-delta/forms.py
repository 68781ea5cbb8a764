"""Two members, three forms: token by token, a square of weights, chunks."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.gated_delta import (
    chunked_gated_delta_attention,
    gated_delta_attention,
)

n, d = 96, 16
generator = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def square(query, key, value, log_decay, beta):
    upto = log_decay.cumsum(0)
    decay = (upto[:, None] - upto).exp()  # (n, n), right for i >= j
    asked = (query @ key.T * decay).tril()
    told = (key @ key.T * decay).tril(-1)
    corrected = torch.eye(n) + beta[:, None] * told
    weights = asked @ torch.linalg.inv(corrected) * beta
    return weights @ value / d**0.5


query, key, value = normal(n, d), normal(n, d), normal(n, d)
key = torch.nn.functional.normalize(key, dim=-1)
rate = normal(n).sigmoid()
decays = {
    "DeltaNet": torch.zeros(n, dtype=torch.float64),
    "Gated DeltaNet": -normal(n).abs(),
}
for name, decay in decays.items():
    tokens = query, key, value, decay, rate
    steps = gated_delta_attention(*tokens)
    forms = {
        "square": square(*tokens),
        "chunks": chunked_gated_delta_attention(*tokens, block_size=32),
        "package": attnref.gated_delta_attention(
            query, key, value, log_decay=decay, beta=rate
        ),
    }
    same = [f"{x} {torch.allclose(forms[x], steps)}" for x in forms]
    print(f"{name:15}", ", ".join(same))
# --8<-- [end:example]
