"""A key that comes twice: added up, faded, or overwritten."""

# --8<-- [start:example]
import torch
from attnref import gated_delta_attention

key = torch.eye(4)[[0, 1, 2, 0]]  # the first key comes again
value = torch.tensor([[1.0], [2.0], [3.0], [7.0]])
half = torch.full((4,), 0.5).log()
one = torch.ones(4)

rules = {
    "added": {},
    "decay 1/2": {"log_decay": half},
    "beta 1": {"beta": one},
    "beta 1/2": {"beta": 0.5 * one},
    "both, 1/2 and 1": {"log_decay": half, "beta": one},
}
print("                  first  second")
for name, rule in rules.items():
    said = [
        gated_delta_attention(key[[asked] * 4], key, value, scale=1.0, **rule)[
            -1
        ].item()
        for asked in (0, 1)
    ]
    print(f"{name:15} {said[0]:7.3f} {said[1]:7.3f}")
# --8<-- [end:example]
