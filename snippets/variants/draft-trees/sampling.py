"""Drafts that are drawn, and a text whose distribution they do not change."""

# --8<-- [start:example]
from fractions import Fraction
from itertools import product
from math import prod

p = [Fraction(n, 6) for n in (3, 2, 1)]  # of the large model
q = [Fraction(n, 6) for n in (1, 2, 3)]  # of the small one


def verified(p, q, drafts):
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
    return [x + left * y for x, y in zip(output, p, strict=True)], 1 - left


print("drafts  next token        accepted  drawn from p, found")
for count in range(4):
    output, accepted, found = [Fraction(0)] * 3, Fraction(0), Fraction(0)
    for drafts in product(range(3), repeat=count):
        chance = prod(q[token] for token in drafts)
        one, taken = verified(p, q, drafts)
        output = [x + chance * y for x, y in zip(output, one, strict=True)]
        accepted += chance * taken
        found += chance * sum(p[token] for token in set(drafts))
    shares = ", ".join(map(str, output))
    print(
        f"{count:6}  {shares:16}  {float(accepted):8.3f}  {float(found):8.3f}"
    )
# --8<-- [end:example]
