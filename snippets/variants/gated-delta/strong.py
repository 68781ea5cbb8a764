"""Decays as factors on queries and keys overflow; ours do not."""

# --8<-- [start:example]
import torch
from attnref import gated_delta_attention

n, d = 64, 16
generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, n, d, generator=generator)


def factors(query, key, value, log_decay):
    upto = log_decay.cumsum(-2)
    scores = (query * upto.exp()) @ (key * (-upto).exp()).T
    return scores.tril() @ value / d**0.5


print("log decay    factors      chunks")
for strength in (0.1, 1.0, 3.0, 50.0, float("inf")):
    gate = torch.full((n, d), -strength)
    wide = gated_delta_attention(
        *(x.double() for x in (query, key, value)), log_decay=gate
    )
    errors = [
        (form.double() - wide).norm() / wide.norm()
        for form in (
            factors(query, key, value, gate),
            gated_delta_attention(query, key, value, log_decay=gate),
        )
    ]
    said = ["right" if error < 1e-5 else "nan" for error in errors]
    print(f"{-strength:9} {said[0]:>10} {said[1]:>11}")
# --8<-- [end:example]
