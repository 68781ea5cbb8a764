"""A head learns to find the word that its query is a noisy copy of."""

# --8<-- [start:example]
import torch
from attnref import softmax

n, d_model, looks = 16, 64, (0, 25, 50)


def draw(generator, *shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def words(generator, batch):
    """Draw n words, the first of them once more with noise, and n values."""
    x = draw(generator, batch, n, d_model)
    asking = 0.9 * x[:, :1] + 0.4 * draw(generator, batch, 1, d_model)
    return x, asking, draw(generator, batch, n, 8)


def attend(W, c, x, asking, v):
    """The scores (batch, 1, n), and how far the output is from value 0."""
    s = c * (asking @ W[0]) @ (x @ W[1]).mT
    return s, (softmax.stable(s) @ v - v[:, :1]).square().mean()


test = words(torch.Generator().manual_seed(1), 1000)
print("                   score of the    deviation   keys in      error")
print("                    right key      of others    play")
print("           step:   0    25    50     0    50     0    50     0    50")
for name, power in {"none": 0, "1/sqrt(d_k)": -0.5, "1/d_k": -1}.items():
    for d_k in (16, 64, 256):
        c = d_k**power
        generator = torch.Generator().manual_seed(0)
        W = draw(generator, 2, d_model, d_k) / d_model**0.5  # W_Q and W_K
        optimiser = torch.optim.Adam([W.requires_grad_()], lr=0.01)
        right, others, keys, errors = [], [], [], []
        for step in range(looks[-1] + 1):
            if step in looks:
                s, error = attend(W.detach(), c, *test)
                right.append(s[..., 0].mean())
                others.append(s[..., 1:].std())
                keys.append(softmax.entropy(softmax.stable(s)).exp().mean())
                errors.append(error)
            _, loss = attend(W, c, *words(generator, 32))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        ends = others[::2] + keys[::2] + errors[::2]
        cells = "".join(f"{x:z6.1f}" for x in right + ends)
        print(f"{name:12} {d_k:3}{cells}")
# --8<-- [end:example]
