"""A function with two faults, and what the checker says of it."""

# --8<-- [start:example]
import textwrap

import torch
from attnref import check


def mine(query, key, value, attn_mask=None):
    scores = query @ key.mT / query.shape[-1]  # one
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -1e9)  # two
    return torch.softmax(scores, -1) @ value


for result in check(mine, only=["scale", "fully_masked"]).results:
    print(result.property, result.verdict.name)
    for language in ("en", "pt"):
        print(textwrap.indent(textwrap.fill(result.diagnosis(language)), " "))
# --8<-- [end:example]
