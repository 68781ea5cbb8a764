"""Keys that are not transposed: an error, except where two sizes coincide."""

# --8<-- [start:example]
import textwrap

import torch

generator = torch.Generator().manual_seed(0)
for n in (7, 8):
    query, key = torch.randn(2, 6, n, 8, generator=generator)  # d = 8
    try:
        wrong = query @ key
        right = query @ key.mT
        same = torch.allclose(wrong, right)
        print(f"n = {n}: no error, shape {tuple(wrong.shape)}, right: {same}")
    except RuntimeError as error:
        print(textwrap.fill(f"n = {n}: {error}", 72))
# --8<-- [end:example]
