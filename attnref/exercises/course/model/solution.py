"""A small decoder made of five functions of the course."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, relu, rms_norm

from attnref.exercises.course.causal_mask.solution import causal_mask
from attnref.exercises.course.decode_step.solution import decode_step
from attnref.exercises.course.masked_attention.solution import masked_attention
from attnref.exercises.course.rotary.solution import rotary
from attnref.exercises.course.split_heads.solution import split_heads

D, H = 32, 2
Weights = dict[str, Tensor]
Past = tuple[Tensor, Tensor]


def model(tokens: Tensor, weights: Weights, past: Past | None = None) -> tuple[Tensor, Past]:
    x = weights["embedding"][tokens]  # (..., n, D)
    normed = rms_norm(x, (D,))
    query, key, value = (split_heads(normed @ weights[w], H) for w in ("query", "key", "value"))
    if past is None:
        n = tokens.shape[-1]
        query, key = rotary(query), rotary(key)  # (..., H, n, D / H)
        heads = masked_attention(query, key, value, causal_mask(n, n))
    else:
        # The new token comes after the t in the cache, whose keys were turned when they came.
        t = past[0].shape[-2]
        heads, key, value = decode_step(rotary(query, t), rotary(key, t), value, *past)
    x = x + heads.transpose(-3, -2).flatten(-2) @ weights["out"]  # (..., n, D)
    x = x + relu(rms_norm(x, (D,)) @ weights["up"]) @ weights["down"]
    return rms_norm(x, (D,)) @ weights["embedding"].mT, (key, value)  # (..., n, 26)


def new_weights(seed: int = 0) -> Weights:
    random = torch.Generator().manual_seed(seed)
    shapes = {"embedding": (26, D), "up": (D, 4 * D), "down": (4 * D, D)}
    shapes |= dict.fromkeys(("query", "key", "value", "out"), (D, D))
    weights = {w: torch.randn(shapes[w], generator=random) / shapes[w][0] ** 0.5 for w in shapes}
    return {name: weight.requires_grad_() for name, weight in weights.items()}


def train(model: Callable[..., tuple[Tensor, Past]], weights: Weights) -> Iterator[float]:
    random = torch.Generator().manual_seed(0)
    for _ in range(60):
        words = torch.randint(26, (16, 7), generator=random).repeat(1, 3)  # (16, 21)
        logits, _ = model(words[:, :-1], weights)
        loss = cross_entropy(logits[:, 6:].mT, words[:, 7:])
        gradients = torch.autograd.grad(loss, list(weights.values()))
        for weight, gradient in zip(weights.values(), gradients, strict=True):
            weight.data -= 0.7 * gradient
        yield loss.item()


def write(weights: Weights, text: str, length: int, cached: bool) -> str:
    past = (torch.zeros(H, 0, D // H), torch.zeros(H, 0, D // H))
    for n in range(1, length):
        tokens = torch.tensor([ord(letter) - ord("a") for letter in text[:n]])
        if cached:
            logits, past = model(tokens[-1:], weights, past)
        else:
            logits, _ = model(tokens, weights)
        if n == len(text):
            text += chr(int(logits[-1].argmax()) + ord("a"))
    return text


if __name__ == "__main__":
    weights = new_weights()
    for step, loss in enumerate(train(model, weights), start=1):
        if step == 1 or step % 10 == 0:
            print(f"{step = :2}, {loss = :.3f}")
    cached, whole = (write(weights, "journey", 21, use) for use in (True, False))
    print(f"{cached = }\n{whole  = }\n{cached == whole = }")
