"""One grouped attention, written four ways."""

# --8<-- [start:example]
import torch
import torch.nn.functional as F
from attnref.minimal.grouped import grouped_query_attention

b, h, h_kv, n, m, d = 2, 6, 2, 5, 7, 8
double = {
    "generator": torch.Generator().manual_seed(0),
    "dtype": torch.float64,
}
query = torch.randn(b, h, n, d, **double)
key, value = (torch.randn(b, h_kv, m, d, **double) for _ in "kv")


def attention(q, k, v):
    return torch.softmax(q @ k.mT / d**0.5, dim=-1) @ v


copied = [x.repeat_interleave(h // h_kv, dim=1) for x in (key, value)]
copies = attention(query, *copied)

# A group gets its own dimension, in which the keys have length 1.
grouped = query.unflatten(1, (h_kv, -1))  # (b, h_kv, h / h_kv, n, d)
spread = [x[:, :, None] for x in (key, value)]  # (b, h_kv, 1, m, d)
broadcast = attention(grouped, *spread).flatten(1, 2)

stacked = grouped_query_attention(query, key, value)

fused = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)

for name, output in {
    "broadcast": broadcast,
    "stacked rows": stacked,
    "PyTorch's kernel": fused,
}.items():
    print(f"{name}: equal to copies: {torch.allclose(output, copies)}")
print("numbers in the keys:", key.numel(), "copied:", copied[0].numel())
# --8<-- [end:example]
