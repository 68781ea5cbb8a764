"""One query in the plane, five keys, three measures of how well they fit."""

# --8<-- [start:example]
import torch
from attnref import similarity

query = torch.tensor([[1.0, 0.0]])
keys = {
    "the query itself": [1.0, 0.0],
    "twice as long": [2.0, 0.0],
    "long, off axis": [3.0, 3.0],
    "at a right angle": [0.0, 1.0],
    "opposite": [-1.0, 0.0],
}
key = torch.tensor(list(keys.values()))
dot = similarity.dot_scores(query, key, scale=1.0)[0]
cosine = similarity.cosine_scores(query, key)[0]
distance = similarity.euclidean_scores(query, key)[0]

print("                   dot  cosine  -distance²")
for row in zip(keys, dot, cosine, distance, strict=True):
    print("{:16} {:5.1f} {:7.2f} {:11.1f}".format(*row))
for name, scores in {
    "dot": dot,
    "cosine": cosine,
    "distance": distance,
}.items():
    best = [list(keys)[j] for j in (scores == scores.max()).nonzero()]
    print(f"best by {name}:", " and ".join(best))
# --8<-- [end:example]
