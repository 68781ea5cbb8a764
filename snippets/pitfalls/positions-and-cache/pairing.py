"""Weights trained with one pairing of components, used with the other."""

# --8<-- [start:example]
import torch
from attnref.positions import rotary, rotary_half_split, to_half_split

generator = torch.Generator().manual_seed(0)
x = torch.randn(7, 12, generator=generator)
heads, d = 2, 6
w_q, w_k = torch.randn(2, heads * d, 12, generator=generator)


def scores(w_q, w_k, turn):
    q, k = ((x @ w.T).view(7, heads, d).transpose(0, 1) for w in (w_q, w_k))
    return turn(q) @ turn(k).mT  # (h, n, n)


trained = scores(w_q, w_k, rotary)
moved = [to_half_split(w, num_heads=heads, dim=0) for w in (w_q, w_k)]
for name, other in (
    ("weights as they are", scores(w_q, w_k, rotary_half_split)),
    ("weights reordered", scores(*moved, rotary_half_split)),
):
    same = torch.allclose(other, trained, atol=1e-5)
    print(f"{name:20} same scores: {same}")
# --8<-- [end:example]
