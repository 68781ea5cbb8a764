"""Cutting into heads: view and transpose, or view alone?"""

# --8<-- [start:example]
import torch

n, h, d = 4, 2, 3
# The entry of word i, column c is written "ic": 00 … 05, 10 … 15, …
x = torch.tensor([[10 * i + c for c in range(h * d)] for i in range(n)])

right = x.view(n, h, d).transpose(0, 1)  # (h, n, d)
wrong = x.view(h, n, d)  # the same shape
back = right.transpose(0, 1).reshape(n, h * d)

print("head 0, view and transpose    head 0, view alone")
for one, other in zip(right[0].tolist(), wrong[0].tolist(), strict=True):
    row = "  ".join(f"{entry:02}" for entry in one)
    print(f"{row:28}", "  ".join(f"{entry:02}" for entry in other))
print("shapes:", tuple(right.shape), tuple(wrong.shape))
print("joined again:", torch.equal(back, x))
print("joined without transpose:", torch.equal(right.reshape(n, h * d), x))
# --8<-- [end:example]
