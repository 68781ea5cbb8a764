"""How much of a cache is room for tokens that never come."""

# --8<-- [start:example]
import torch
from attnref import cost

generator = torch.Generator().manual_seed(0)
lengths = torch.randint(1, 2049, (256,), generator=generator).tolist()

print("page   tokens  places in pages  in use  padded to 2048  in use")
for block_size in (1, 16, 64, 256, 2048):
    slots = cost.slots(lengths, block_size=block_size, max_length=2048)
    paged, padded = slots.used / slots.paged, slots.used / slots.padded
    print(
        f"{block_size:4} {slots.used:8} {slots.paged:16} {paged:7.1%}"
        f" {slots.padded:15} {padded:7.1%}"
    )

own = [length // 8 + 1 for length in lengths]  # 1000 more are the same
longer = [1000 + length for length in own]
apart, shared = (
    cost.slots(longer, block_size=16, prefix=prefix).paged
    for prefix in (0, 1000)
)
print(f"with 1000 tokens in common: {apart} places, shared {shared}")
# --8<-- [end:example]
