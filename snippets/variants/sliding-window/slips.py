"""Windows that run and are wrong, found by a value that must not count."""

# --8<-- [start:example]
import torch
from torch.nn.functional import scaled_dot_product_attention

n, window = 8, 3
i, j = torch.arange(n)[:, None], torch.arange(n)
query = key = torch.zeros(1, n, 4)  # all scores equal: plain averages
value = torch.eye(n)[None]  # the output is the table of weights

print("mask                  keys of query 5   first rows see")
for name, mask in (
    ("0 <= i - j < w", (i - j >= 0) & (i - j < window)),
    ("0 <= i - j <= w", (i - j >= 0) & (i - j <= window)),
    ("abs(i - j) < w", (i - j).abs() < window),
    ("i - j < w", i - j < window),
):
    weights = scaled_dot_product_attention(query, key, value, mask)[0]
    seen = (weights > 0).long()
    keys = seen[5].nonzero().flatten().tolist()
    print(f"{name:20}  {keys!s:16}  {seen.sum(-1)[:3].tolist()}")
# --8<-- [end:example]
