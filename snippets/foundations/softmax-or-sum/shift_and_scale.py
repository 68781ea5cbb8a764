"""Weights f(s) over their sum: what a rule notices of a shift and a factor."""

# --8<-- [start:example]
import math

import torch

rules = {
    "s": lambda s: s,
    "s ** e": lambda s: s**math.e,
    "log(1 + e ** s)": lambda s: torch.log1p(torch.exp(s)),
    "e ** s": torch.exp,
}
scores = torch.tensor([1.0, 2.0, 3.0])
for name, rule in rules.items():
    print(name)
    for change, changed in {
        "1, 2, 3": scores,
        "plus 10": scores + 10,
        "times 2": 2 * scores,
    }.items():
        weights = rule(changed) / rule(changed).sum()
        print(f"  {change}:", " ".join(f"{w:.3f}" for w in weights))
# --8<-- [end:example]
