"""Zero means are not enough for Var(q·k) = d_k; every outcome is counted."""

# --8<-- [start:example]
from fractions import Fraction
from itertools import product

SIGNS = (-1, 1)


def variance(outcomes):
    """Of q·k over equally likely (q, k)."""
    dots = [sum(a * b for a, b in zip(q, k, strict=True)) for q, k in outcomes]
    mean = Fraction(sum(dots), len(dots))
    return Fraction(sum(dot * dot for dot in dots), len(dots)) - mean**2


independent = [(s[:4], s[4:]) for s in product(SIGNS, repeat=8)]
copies = [((e,) * 8, (f,) * 8) for e, f in product(SIGNS, repeat=2)]
triples = [((a, t), (b, a * b * t)) for a, b, t in product(SIGNS, repeat=3)]

print("all components independent,  d_k = 4:", variance(independent))
print("q and k repeat one number,   d_k = 8:", variance(copies))
print("any three independent,       d_k = 2:", variance(triples))
# --8<-- [end:example]
