"""A statement on trial: try it many times, and show where it fails."""

# --8<-- [start:example]
import torch
from attnref import softmax

generator = torch.Generator().manual_seed(0)
scores = 3 * torch.rand(10_000, 2, generator=generator, dtype=torch.float64)
a, b = scores.amax(-1), scores.amin(-1)  # the larger, the smaller
by_sum = b / (a + b)
by_softmax = softmax.stable(scores).amin(-1)
lowered = by_softmax < by_sum

statements = {
    "the smaller share always falls": torch.ones_like(lowered),
    "it falls where b > 1": b > 1,
    "it falls where (a-b)/ln(a/b) > 1": (a - b) / (a / b).log() > 1,
}
for statement, expected in statements.items():
    wrong = lowered != expected
    print(f"{statement:33} fails {int(wrong.sum()):4} times", end="")
    if wrong.any():
        i = int(wrong.nonzero()[0])
        print(f", first for {a[i]:.2f} and {b[i]:.2f}", end="")
    print()
# --8<-- [end:example]
