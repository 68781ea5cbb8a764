"""The small Transformer of the course, before and after it has learned."""

# --8<-- [start:example]
import attnref
import torch
from attnref.exercises.course.model.solution import model, new_weights, train

weights = {
    name: weight.detach().double().requires_grad_()
    for name, weight in new_weights().items()
}
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
