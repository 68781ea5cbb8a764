"""Splitting and joining heads: the errors, the silent repairs and the fix."""

# --8<-- [start:example]
import textwrap

import torch

n, h, d = 5, 3, 8
x = torch.arange(n * h * d).view(1, n, h * d)  # (b, n, d_model)


def attempt(name, make):
    try:
        print(f"{name}: right: {torch.equal(make(), x)}")
    except RuntimeError as error:
        print(textwrap.fill(f"{name}: {error}", 72))


# (b, h, n, d), laid out in this order, as attention returns it
heads = x.view(1, n, h, d).transpose(1, 2).contiguous()
attempt("split into 5 heads", lambda: x.view(1, n, 5, 8))
attempt("joined by view", lambda: heads.transpose(1, 2).view(1, n, h * d))
attempt("no transpose", lambda: heads.reshape(1, n, h * d))
attempt("fixed", lambda: heads.transpose(1, 2).reshape(1, n, h * d))
# --8<-- [end:example]
