"""Blockwise attention under a mask that nobody has to hold."""

# --8<-- [start:example]
import attnref
import torch
from attnref import blockwise_attention, masks

n = 1536
mask = masks.prefix_lm(n, prefix=200) & masks.packed([900, 636])
generator = torch.Generator().manual_seed(0)
inputs = torch.randn(3, 2, n, 16, generator=generator)
attend = attnref.scaled_dot_product_attention

results = []
for function, rule in (
    (blockwise_attention, mask),  # the rule itself
    (attend, mask.dense()),  # a table of n × n
):
    query, key, value = inputs.clone().requires_grad_()
    output = function(query, key, value, rule)
    gradients = torch.autograd.grad(output.square().sum(), (query, key, value))
    results.append((output, *gradients))

for name, ours, theirs in zip(
    ("output", "gradient to the query", "to the key", "to the value"),
    *results,
    strict=True,
):
    same = torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    print(f"{name}: same as the definition: {same}")

states = mask.block_summary(128).flatten()
names = ("skipped", "masked", "computed without the mask")
for state, name in enumerate(names):
    print(f"{(states == state).sum():3} of {len(states)} blocks {name}")
# --8<-- [end:example]
