"""The context vector of "journey" by loops alone, as by hand."""

# --8<-- [start:example]
from math import exp

words = {
    "Your": (0.43, 0.15, 0.89),
    "journey": (0.55, 0.87, 0.66),
    "starts": (0.57, 0.85, 0.64),
    "with": (0.22, 0.58, 0.33),
    "one": (0.77, 0.25, 0.10),
    "step": (0.05, 0.80, 0.55),
}
query = words["journey"]

scores = {}
for word, vector in words.items():
    scores[word] = sum(q * x for q, x in zip(query, vector, strict=True))

total = sum(exp(score) for score in scores.values())
weights = {word: exp(score) / total for word, score in scores.items()}

context = [0.0, 0.0, 0.0]
for word, vector in words.items():
    for p in range(3):
        context[p] += weights[word] * vector[p]

average = [sum(column) / 6 for column in zip(*words.values(), strict=True)]
terms = [q * x for q, x in zip(query, words["one"], strict=True)]

for word, (a, b, c) in words.items():
    print(f"{word:8} {a:.2f} {b:.2f} {c:.2f}", end="  ")
    print(f"score {scores[word]:.4f}  weight {weights[word]:.4f}")
print("score of one: ", " + ".join(f"{term:.4f}" for term in terms))
print("context vector", " ".join(f"{number:.4f}" for number in context))
print("plain average ", " ".join(f"{number:.4f}" for number in average))
# --8<-- [end:example]
