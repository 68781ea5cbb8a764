"""Longer rows: random scores and one key that leads, by kind of factor."""

# --8<-- [start:example]
import math

import torch
from attnref import softmax

lengths = (64, 512, 4096, 32_768)
factors = {
    "constant": lambda n: 1.0,
    "sqrt(ln n)": lambda n: math.sqrt(math.log(n) / math.log(64)),
    "ln n": lambda n: math.log(n) / math.log(64),
}


def row(label, numbers, digits):
    print(f"{label:10}" + "".join(f"{x:9.{digits}f}" for x in numbers))


row("", lengths, 0)
print("entropy / ln n of random scores")
for name, factor in factors.items():
    generator = torch.Generator().manual_seed(0)
    found = []
    for n in lengths:
        s = torch.randn(2**20 // n, n, generator=generator)
        entropy = softmax.entropy(softmax.stable(factor(n) * s)).mean()
        found.append(entropy / math.log(n))
    row(name, found, 2)
print("weight of one key that leads all others by 8")
for name, factor in factors.items():
    leads = [1 / (1 + (n - 1) * math.exp(-8 * factor(n))) for n in lengths]
    row(name, leads, 3)
# --8<-- [end:example]
