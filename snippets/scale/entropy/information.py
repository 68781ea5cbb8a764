"""What the index that attention picks tells about the query, in nats."""

# --8<-- [start:example]
import math

import attnref
import torch
from attnref import softmax

d_k, n, queries = 16, 256, 4000
generator = torch.Generator().manual_seed(0)
q = torch.randn(queries, d_k, generator=generator)
k = torch.randn(n, d_k, generator=generator)

print(f"ln n = {math.log(n):.2f}")
print("factor c  H(mean p)  mean H(p)  information")
for c in (0, 1 / 16, 1 / 4, 1 / 2, 1, 2, 16):
    p = attnref.attention_weights(q, k, scale=c)  # (queries, n)
    together = softmax.entropy(p.mean(0))
    alone = softmax.entropy(p).mean()
    told = together - alone
    print(f"{c:8.4f}  {together:9.2f}  {alone:9.2f}  {told:z11.2f}")
# --8<-- [end:example]
