"""Dot-product attention as attention by distance, plus a bias."""

# --8<-- [start:example]
import attnref
import torch
from attnref import similarity, softmax

n, m, d_k = 7, 11, 16
generator = torch.Generator().manual_seed(0)
query = torch.randn(n, d_k, generator=generator)
key = torch.randn(m, d_k, generator=generator)


def compare(key):
    half = 0.5 / d_k**0.5
    by_dot = attnref.attention_weights(query, key)
    near = similarity.euclidean_scores(query, key, scale=half)
    bias = half * key.square().sum(-1)  # one number for each key
    for name, weights in {
        "distance and bias": softmax.stable(near + bias),
        "distance alone": softmax.stable(near),
    }.items():
        moved = (weights - by_dot).abs().sum(-1) / 2  # share that moved
        same = torch.allclose(weights, by_dot, atol=1e-6)
        print(f"  {name:18} same: {same!s:5}  moved at most {moved.max():.2f}")


print("keys of many lengths")
compare(key)
print("keys of one length")
compare(4 * key / key.norm(dim=-1, keepdim=True))
# --8<-- [end:example]
