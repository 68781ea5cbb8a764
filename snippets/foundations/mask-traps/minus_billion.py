"""-1e9 as minus infinity: where it fails, and what it does in silence."""

# --8<-- [start:example]
import attnref
import torch

scores = torch.tensor([[3.0, -2.0, 1.0, 0.0]])
nothing = torch.zeros(1, 4, dtype=torch.bool)  # True = may attend


def show(name, weights):
    numbers = "  ".join(f"{weight:.4f}" for weight in weights[0])
    print(f"{name:23}  {numbers}")


try:
    scores.half().masked_fill(~nothing, -1e9)
except RuntimeError as error:
    print("float16:", error)

print("\na query that may attend to nothing")
show("filled with -1e9", torch.softmax(scores.masked_fill(~nothing, -1e9), -1))
show("-10000 added", torch.softmax(scores - 10_000, -1))
show("no mask at all", torch.softmax(scores, -1))
show(
    "filled with -inf",
    torch.softmax(scores.masked_fill(~nothing, -torch.inf), -1),
)

query, key = torch.ones(1, 1), scores.T  # whose products are these scores
show("attnref", attnref.attention_weights(query, key, nothing, scale=1.0))
# --8<-- [end:example]
