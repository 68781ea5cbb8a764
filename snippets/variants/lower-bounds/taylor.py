"""Features of a polynomial in the scores, against their size."""

# --8<-- [start:example]
import math

d = 64
print("largest score  degree for 1 % error  features at d = 64")
for bound in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0):
    degree, power = 0, 1.0
    total = 1.0  # of the series at -bound, where the power is least
    while abs(total - math.exp(-bound)) > 0.01 * math.exp(-bound):
        degree += 1
        power *= -bound / degree
        total += power
    features = math.comb(d + degree, degree)
    print(f"{bound:13}  {degree:20}  {features:19.1e}")
# --8<-- [end:example]
