"""Four wrong factors beside the right one, by the keys that a row sees."""

# --8<-- [start:example]
import torch
from attnref import attention_weights, softmax
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
h, n, d = 8, 64, 64  # d_model = h * d
query, key = torch.randn(2, h, n, d, generator=generator)
root = d**0.5

for name, q, scale in (
    ("right: the default", query, None),
    ("no factor", query, 1.0),
    ("multiplied by the root", query, root),
    ("applied twice", query / root, None),
    ("of d_model", query, (h * d) ** -0.5),
):
    weights = attention_weights(q, key, scale=scale)
    keys = softmax.entropy(weights).exp().mean()
    print(f"{name:23} keys seen: {keys:4.1f} of {n}")

value = torch.randn(h, n, d, generator=generator)
fixed = F.scaled_dot_product_attention(query / root, key, value, scale=1.0)
right = F.scaled_dot_product_attention(query, key, value)
print("scaled beforehand, scale=1.0:", torch.allclose(fixed, right, atol=1e-6))
# --8<-- [end:example]
