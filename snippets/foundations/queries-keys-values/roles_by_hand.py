"""Three words with projections set by hand: who asks, and who is found."""

# --8<-- [start:example]
import attnref
import torch

words = ["dogs", "bark", "loudly"]
X = torch.eye(3)  # a noun, a verb, an adverb

# Columns: noun, verb. What each word looks for, and what it is.
W_q = torch.tensor([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
W_k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])

for name, weights in {
    "X X^T": attnref.attention_weights(6 * X, X),
    "Q K^T": attnref.attention_weights(X @ W_q, X @ W_k),
}.items():
    print(f"{name:8}", "  ".join(f"{word:6}" for word in words))
    for word, row in zip(words, weights, strict=True):
        print(f"{word:8}", "  ".join(f"{weight:.2f}  " for weight in row))
# --8<-- [end:example]
