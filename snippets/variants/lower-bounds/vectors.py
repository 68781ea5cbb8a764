"""One pass of attention tells whether two of the vectors are orthogonal."""

# --8<-- [start:example]
import math

import attnref
import torch

n, d = 256, 24
generator = torch.Generator().manual_seed(0)
a, b = torch.randint(0, 2, (2, n, d), generator=generator).float()
a[:, 0] = b[:, 0] = 1  # so every pair shares a one


def outputs(a, b):
    query = torch.cat([-a, torch.full((n, 1), -0.5)], -1)
    guard = torch.eye(d + 1)[-1:]  # its score is -1/2 with every query
    key = torch.cat([torch.cat([b, torch.zeros(n, 1)], -1), guard])
    value = torch.cat([torch.ones(n, 1), torch.zeros(1, 1)])
    tokens = (x.double() for x in (query, key, value))
    return attnref.scaled_dot_product_attention(*tokens, scale=4 * math.log(n))


def report(name):
    pairs = int((a @ b.T == 0).sum())
    largest = outputs(a, b).max()
    print(f"{name}: {pairs} orthogonal pairs, largest output {largest:.6f}")


report("as drawn ")
a[7] = torch.eye(d)[5]  # a single one, at a place where
b[:, 5] = 1  # all the others have a one too,
b[100, 5] = 0  # but for this
report("one repaired")
print(f"1 / n = {1 / n:.6f}")
# --8<-- [end:example]
