"""What it costs a head to say nothing, in eight bits."""

# --8<-- [start:example]
import math

import torch
from attnref import attention_weights, softmax

generator = torch.Generator().manual_seed(0)
m, d = 64, 64
queries = torch.randn(256, d, generator=generator)
keys = torch.randn(m, d, generator=generator)
queries[:, 0], keys[:, 0] = 4, 0  # a channel that all queries share
scores = queries @ keys.mT / math.sqrt(d)
row = softmax.log_sum_exp(scores).mean()  # what a sink competes with
turn = torch.ones(1, 1)  # an orthogonal matrix, all entries 1/8 or -1/8
while len(turn) < d:
    pair = torch.tensor([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
    turn = torch.kron(pair, turn)


def error(queries, block):
    step = block.abs().max() / 127  # one step for the whole block
    rounded = (block / step).round() * step
    moved = queries @ (rounded - block).mT / math.sqrt(d)
    return moved[:, -m:].square().mean().sqrt()


print("left to the keys   sink      largest number   error of a score")
for left in (0.5, 0.1, 0.001):
    sink = row + math.log((1 - left) / left)
    first = torch.zeros(1, d)
    first[0, 0] = sink * math.sqrt(d) / 4  # the key with that score
    pair = queries, torch.cat([first, keys])
    turned = pair[0] @ turn, pair[1] @ turn  # the same scores
    by_key, by_turned = (attention_weights(*p)[:, 1:] for p in (pair, turned))
    learned = attention_weights(queries, keys, sink=sink)
    for name, weights, kept in (
        ("key", by_key, pair),
        ("turned", by_turned, turned),
        ("learned", learned, (queries, keys)),
    ):
        share, largest = weights.sum(-1).mean(), kept[1].abs().max()
        line = f"{share:16.3f}   {name:8}{largest:16.1f}"
        print(f"{line}{error(*kept):19.4f}")
# --8<-- [end:example]
