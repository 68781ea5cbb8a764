"""Low weights do not stop the gradient; a weight of nearly 1 does."""

# --8<-- [start:example]
import torch
from attnref import softmax

n = 64
flat = torch.zeros(n, dtype=torch.float64)
rivals = flat.clone()
rivals[:2] = 32.0
winner = flat.clone()
winner[0] = 32.0
g = torch.ones(n, dtype=torch.float64)
g[1::2] = -1  # what each weight is worth to the loss: +1 and -1 in turn

print("row          largest p  trace of J  length of Jg")
for name, scores in {
    "all equal": flat,
    "two rivals": rivals,
    "one winner": winner,
}.items():
    p = softmax.stable(scores)
    trace = (p * (1 - p)).sum()
    length = softmax.jacobian_product(p, g).norm()
    print(f"{name:11} {p.max():10.4f}  {trace:10.1e}  {length:12.1e}")
# --8<-- [end:example]
