"""Three ways to forbid a key give the same weights."""

# --8<-- [start:example]
import torch
from attnref.masks import causal

generator = torch.Generator().manual_seed(0)
scores = torch.randn(4, 4, generator=generator).requires_grad_()
may = causal(4).dense()  # True = may attend

# 1. Take away the forbidden weights, and divide what is left by its sum.
kept = torch.softmax(scores, dim=-1) * may
renormalised = kept / kept.sum(dim=-1, keepdim=True)
# 2. Forbid before the softmax: a score of minus infinity has the weight 0.
masked = torch.softmax(scores.masked_fill(~may, -torch.inf), dim=-1)
# 3. Never look at the forbidden keys.
skipped = torch.zeros(4, 4)
for i in range(4):
    skipped[i, may[i]] = torch.softmax(scores[i, may[i]], dim=-1)

for row in masked.tolist():
    print("  ".join(f"{weight:.4f}" for weight in row))
print("1 and 2 agree:", torch.allclose(renormalised, masked))
print("2 and 3 agree:", torch.allclose(masked, skipped))

(gradient,) = torch.autograd.grad(masked.square().sum(), scores)
print("gradient of forbidden scores:", gradient[~may].unique().tolist())
# --8<-- [end:example]
