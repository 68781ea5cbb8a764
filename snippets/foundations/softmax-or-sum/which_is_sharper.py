"""Neighbouring scores of "journey": which rule sets them further apart?"""

# --8<-- [start:example]
from itertools import pairwise
from math import exp, log

scores = {
    "journey": 1.4950,
    "starts": 1.4754,
    "step": 1.0865,
    "Your": 0.9544,
    "with": 0.8434,
    "one": 0.7070,
}
print("pair             by sum  by softmax  logarithmic mean")
for (one, a), (other, b) in pairwise(scores.items()):
    mean = (a - b) / (log(a) - log(b))
    print(f"{one:7} : {other:7} {a / b:.4f}  {exp(a - b):.4f}      {mean:.3f}")
# --8<-- [end:example]
