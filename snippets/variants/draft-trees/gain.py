"""How many tokens a pass writes, and what it costs, as the tree grows."""

# --8<-- [start:example]
import heapq

import torch
from attnref import cost, masks, roofline

bf16, past, width = torch.bfloat16, 8192, 4096
h100 = roofline.Machine("an H100", {bf16: 989e12}, bytes_per_second=3.35e12)


def best_tree(nodes, chances):
    """Parents of the likeliest nodes, and the tokens expected of them."""
    parents, expected, waiting = [], 0.0, [(-1.0, -1)]
    while len(parents) < nodes:
        reached, parent = heapq.heappop(waiting)
        expected -= reached
        for chance in chances:
            heapq.heappush(waiting, (reached * chance, len(parents)))
        parents.append(parent)
    return parents, expected


def seconds(parents, batch):
    """A pass of one layer over a tree for each sequence of the batch."""
    n = len(parents)
    sizes = cost.Sizes(
        n=n,
        m=past + n,
        d_k=128,
        d_v=128,
        batch=batch,
        num_heads=32,
        num_kv_heads=8,
        dtype=bf16,
    )
    pairs = masks.tree(parents, past=past).count()
    layer = cost.multihead(sizes, width, cost.of("fused", sizes, pairs=pairs))
    layer += cost.feedforward(batch * n, width, 4 * width, dtype=bf16)
    return h100.roofline(layer, dtype=bf16).seconds


print("       tokens a pass    times as fast, batch of")
print("nodes  chain    tree       1      16      64")
for nodes in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
    _, chain = best_tree(nodes, [0.6])
    parents, tree = best_tree(nodes, [0.6, 0.15, 0.08, 0.04])
    gains = [
        tree * seconds([-1], batch) / seconds(parents, batch)
        for batch in (1, 16, 64)
    ]
    print(f"{nodes:5} {chain:6.2f} {tree:7.2f}  ", end="")
    print("".join(f"{gain:8.2f}" for gain in gains))
# --8<-- [end:example]
