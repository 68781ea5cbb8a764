"""Drafts that are drawn, and a text whose distribution they do not change."""

# --8<-- [start:example]
from fractions import Fraction
from itertools import product

import torch
from attnref.minimal.speculative import verify_draft

p = [Fraction(n, 6) for n in (3, 2, 1)]  # of the large model
q = [Fraction(n, 6) for n in (1, 2, 3)]  # of the small one


def without(q, token):
    """What is left of q for the next draft, if drafts have to differ."""
    left = 1 - q[token] or 1  # if q was sure of the token, nothing is left
    return [0 if x == token else share / left for x, share in enumerate(q)]


def verified(p, q, drafts, differ=False):
    """How likely each next token is, and that it is one of the drafts."""
    output, left = [Fraction(0)] * len(p), Fraction(1)
    for token in drafts:
        accept = min(1, p[token] / q[token])
        output[token] += left * accept
        left *= 1 - accept
        if left == 0:
            return output, 1 - left
        lacking = [max(a - b, 0) for a, b in zip(p, q, strict=True)]
        p = [share / sum(lacking) for share in lacking]
        q = without(q, token) if differ else q
    return [x + left * y for x, y in zip(output, p, strict=True)], 1 - left


print("drafts  differ  next token      accepted  drawn from p, found")
for count, differ in product(range(1, 4), (False, True)):
    output, accepted, found = [Fraction(0)] * 3, Fraction(0), Fraction(0)
    for drafts in product(range(3), repeat=count):
        chance, left = Fraction(1), q
        for token in drafts:
            chance *= left[token]
            left = without(left, token) if differ else left
        if chance == 0:
            continue
        one, taken = verified(p, q, drafts, differ)
        output = [x + chance * y for x, y in zip(output, one, strict=True)]
        accepted += chance * taken
        found += chance * sum(p[token] for token in set(drafts))
    shares = ", ".join(map(str, output))
    print(f"{count:6}  {differ!s:6}  {shares:14}", end="")
    print(f"  {float(accepted):8.3f}  {float(found):8.3f}")

often, generator = 100_000, torch.Generator().manual_seed(0)
drafts, truth = (torch.tensor([float(x) for x in share]) for share in (q, p))
tokens = drafts.multinomial(often, replacement=True, generator=generator)
uniform = torch.rand(often, 2, generator=generator)
count, drawn = verify_draft(
    tokens[:, None],
    drafts.expand(often, 1, 3),
    truth.expand(often, 2, 3),
    uniform,
)
written = torch.where(count == 1, tokens, drawn).bincount() / often
shares = ", ".join(f"{share:.3f}" for share in written.tolist())
print(f"drawn: {shares}, accepted {count.float().mean():.3f}")
# --8<-- [end:example]
