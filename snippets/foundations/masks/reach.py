"""How many layers until a token may have heard of every other."""

# --8<-- [start:example]
import torch
from attnref import masks

n = 256


def layers(mask, goal):
    """Layers until information has flowed along every pair of the goal."""
    step = mask.dense().float()
    reached, count = step, 1
    while not torch.equal(reached.bool(), goal.dense()):
        reached, count = (reached @ step > 0).float(), count + 1
    return count


past = masks.causal(n)
everything = past | ~past
two_sided = masks.sliding_window(n, window=17)
hub = masks.global_tokens(n, positions=[0])

print("mask                       pairs  layers")
for name, mask, goal in (
    ("causal", past, past),
    ("window of 17", masks.sliding_window(n, window=17, is_causal=True), past),
    ("strided, 16", masks.strided(n, stride=16), past),
    ("dyadic", masks.dyadic(n), past),
    ("two-sided window of 17", two_sided, everything),
    ("the same, token 0 global", two_sided | hub, everything),
):
    print(f"{name:24}  {mask.count():6}  {layers(mask, goal):6}")
# --8<-- [end:example]
