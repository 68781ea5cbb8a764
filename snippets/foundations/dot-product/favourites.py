"""Which of the six words does each word like best, by three measures?"""

# --8<-- [start:example]
import torch
from attnref import similarity

words = ["Your", "journey", "starts", "with", "one", "step"]
X = torch.tensor(
    [
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ]
)
measures = {
    "dot": similarity.dot_scores(X, X, scale=1.0),
    "cosine": similarity.cosine_scores(X, X),
    "distance": similarity.euclidean_scores(X, X),
}
print("word     length  favourite by", *measures)
for i, word in enumerate(words):
    best = [words[scores[i].argmax()] for scores in measures.values()]
    print(f"{word:8} {X[i].norm():.2f}   ", *(f"{name:8}" for name in best))
for name, scores in measures.items():
    order = scores[1].argsort(descending=True)
    print(f"journey, by {name}:", ", ".join(words[j] for j in order))
# --8<-- [end:example]
