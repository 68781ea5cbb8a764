"""All 64 ways to drop some of six weights, each with its probability."""

# --8<-- [start:example]
import itertools
import math

import attnref
import torch

words = torch.tensor(
    [
        [0.43, 0.15, 0.89],  # Your
        [0.55, 0.87, 0.66],  # journey
        [0.57, 0.85, 0.64],  # starts
        [0.22, 0.58, 0.33],  # with
        [0.77, 0.25, 0.10],  # one
        [0.05, 0.80, 0.55],  # step
    ],
    dtype=torch.float64,
)
p = attnref.attention_weights(words[1:2], words, scale=1.0)[0]  # (6,)
keep = torch.tensor(list(itertools.product([0.0, 1.0], repeat=6))).double()


def show(name, context):
    print(f"{name:20}", "  ".join(f"{number:.4f}" for number in context))


show("without dropout", p @ words)
for rate in (0.1, 0.5):
    kept = keep.sum(-1)
    chance = (1 - rate) ** kept * rate ** (6 - kept)  # (64,), of each way
    dropped = keep * p / (1 - rate)  # (64, 6)
    sums = dropped.sum(-1)
    renormalised = dropped / sums.clamp(min=1e-300)[:, None]  # 0 stays 0
    print(f"\nrate {rate}, mean of all ways")
    show("rescaled", chance @ dropped @ words)
    show("renormalised instead", chance @ renormalised @ words)
    deviation = (chance @ (sums - 1) ** 2).sqrt()
    law = math.sqrt(rate / (1 - rate) * p.square().sum())
    print(f"sum of a row: {chance @ sums:.4f} ± {deviation:.4f}", end="")
    print(f", by the law ± {law:.4f}")
# --8<-- [end:example]
