"""Columns that a query meets in hierarchical attention, counted by PyTorch."""

# --8<-- [start:example]
import torch
from attnref.minimal.hierarchical import hierarchical_attention
from torch.utils.flop_counter import FlopCounterMode

d = 64
print("     n  operations (millions)  columns per query  all keys")
for n in (256, 1024, 4096, 16384):
    tokens = torch.zeros(n, d)
    with FlopCounterMode(display=False) as counter:
        hierarchical_attention(
            tokens, tokens, tokens, block_size=16, num_means=4
        )
    count = counter.get_total_flops()
    columns = count / (2 * n * (d + d))
    print(f"{n:6}  {count / 1e6:21.1f}  {columns:15.0f}  {n:8}")
# --8<-- [end:example]
