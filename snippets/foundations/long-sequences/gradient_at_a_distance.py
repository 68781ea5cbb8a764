"""How much the last output feels a word, by the distance between them."""

# --8<-- [start:example]
import attnref
import torch

n, width = 101, 64
generator = torch.Generator().manual_seed(0)
numbers = {"generator": generator, "dtype": torch.float64}
W = torch.randn(width, width, **numbers) / width**0.5
words = 0.1 * torch.randn(n, width, **numbers)


def recurrent(x, gain):
    state = torch.zeros(width, dtype=x.dtype)
    for word in x:
        state = torch.tanh(gain * W @ state + word)
    return state  # the last one, which has read every word


def attention(x):
    query = x[-1:]  # the last word asks all of them
    return attnref.scaled_dot_product_attention(query, x, x)[0]


def gradients(read):
    """Of one direction of the output, a norm for each word."""
    x = words.clone().requires_grad_()
    output = read(x).sum() / width**0.5  # along a vector of length 1
    (gradient,) = torch.autograd.grad(output, x)
    return gradient.norm(dim=-1)


columns = [
    gradients(lambda x: recurrent(x, 0.8)),
    gradients(lambda x: recurrent(x, 3.0)),
    gradients(attention),
]
print("distance  gain 0.8  gain 3.0  attention")
for distance in (1, 2, 5, 10, 20, 50, 100):
    norms = [column[n - 1 - distance] for column in columns]
    print(f"{distance:8}", *(f"{norm:9.1e}" for norm in norms))
# --8<-- [end:example]
