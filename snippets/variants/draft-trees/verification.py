"""A cache that is read once for all nodes of a tree, or once for each."""

# --8<-- [start:example]
import torch
from attnref import cost, masks

past, half = 8192, {"d_k": 128, "d_v": 128, "dtype": torch.bfloat16}
heads = {"num_heads": 32, "num_kv_heads": 8}

print("nodes  passes  million operations     MB read  per byte")
for nodes in (16, 64):
    parents = [(node + 1) // 2 - 1 for node in range(nodes)]  # two children
    mask = masks.tree(parents, past=past)
    sizes = cost.Sizes(n=nodes, m=past + nodes, **half, **heads)
    once = cost.of("fused", sizes, pairs=mask.count())
    each = cost.Cost()
    for seen in mask.dense().sum(-1).tolist():
        each += cost.of("fused", cost.Sizes(n=1, m=seen, **half, **heads))
    for passes, spent in ((1, once), (nodes, each)):
        print(
            f"{nodes:5} {passes:7} {spent.operations.total / 1e6:19.1f}"
            f" {spent.bytes_read / 1e6:11.1f} {spent.intensity:9.1f}"
        )
# --8<-- [end:example]
