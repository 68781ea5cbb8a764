"""Rotated queries and keys: the score knows the distance, and no more."""

# --8<-- [start:example]
import torch
from attnref.positions import rotary, rotary_half_split

generator = torch.Generator().manual_seed(0)
q, k = torch.randn(2, 8, generator=generator, dtype=torch.float64)
words = 6
query, key = q.expand(words, -1), k.expand(words, -1)  # one word, six times

scores = rotary(query) @ rotary(key).mT  # (6, 6)
for row in scores[:3]:
    print("  ".join(f"{score:6.3f}" for score in row))

far = rotary(query, offset=5000) @ rotary(key, offset=5000).mT
print("5000 places further on:", torch.allclose(far, scores))
print(
    "lengths are kept:", torch.allclose(rotary(query).norm(dim=-1), q.norm())
)
mixed = rotary_half_split(query) @ rotary_half_split(key).mT
print("the other pairing gives the same:", torch.allclose(mixed, scores))
# --8<-- [end:example]
