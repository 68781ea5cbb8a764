"""The small Transformer of the course, before and after it has learned."""

# --8<-- [start:example]
import attnref
import torch
from attnref.exercises.course.model.solution import model, new_weights, train

torch.set_default_dtype(torch.float64)
weights = new_weights()
word = torch.tensor([ord(letter) - ord("a") for letter in "journey"])
tokens = word.repeat(3)[None]  # (1, 21)


def look():
    with torch.no_grad(), attnref.watch() as seen:
        model(tokens, weights)
    favourite = seen.weights(0)[:, 7:].argmax(-1)  # from the second time on
    print(favourite - torch.arange(7, 21))
    return seen


look()
*_, loss = train(model, weights)
print(look())
# --8<-- [end:example]
