"""A sign slip that is right by accident: Var(x) is not E[x] - E[x²]."""

# --8<-- [start:example]
from fractions import Fraction


def both_ways(values):
    """E[q²] E[k²], true and with the slip, for q and k drawn from values."""
    mean = Fraction(sum(values), len(values))
    square = Fraction(sum(value * value for value in values), len(values))
    return square * square, (mean - square) * (mean - square)


for values in ([-1, 1], [Fraction(-1, 2), Fraction(3, 2)]):
    true, slip = both_ways(values)
    print("values", *values, " true", true, " with the slip", slip)
# --8<-- [end:example]
