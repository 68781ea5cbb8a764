"""Rotated queries and keys: the score knows the distance, and no more."""

# --8<-- [start:example]
import torch
from attnref.minimal.rotary import rotary, rotary_half_split

generator = torch.Generator().manual_seed(0)
q, k = torch.randn(2, 8, generator=generator, dtype=torch.float64)
words = 6
query, key = q.expand(words, -1), k.expand(words, -1)  # one word, six times


def scores(rotate, start=0):
    places = torch.arange(start, start + words)
    return rotate(query, places) @ rotate(key, places).mT  # (6, 6)


here = scores(rotary)
for row in here[:3]:
    print("  ".join(f"{score:6.3f}" for score in row))

far = scores(rotary, start=5000)
print("5000 places further on:", torch.allclose(far, here))
turned = rotary(query, torch.arange(words))
print("lengths are kept:", torch.allclose(turned.norm(dim=-1), q.norm()))
mixed = scores(rotary_half_split)
print("the other pairing gives the same:", torch.allclose(mixed, here))
# --8<-- [end:example]
