"""An indexer learns which keys the attention looks at."""

# --8<-- [start:example]
import torch
from attnref import attention_weights, indexer_attention, indexer_choice

n, d, h, h_index, d_index, count = 128, 16, 4, 4, 8, 16
generator = torch.Generator().manual_seed(0)
exact = {"generator": generator, "dtype": torch.float64}
tokens = torch.randn(n, 24, **exact)  # 400 steps multiply a rounding


def matrix(rows, heads=1):
    return torch.randn(heads, 24, rows, **exact) / 24**0.5


query, key = (2 * tokens @ matrix(d, h) for _ in range(2))  # (h, n, d)
layers = [matrix(d_index, h_index), matrix(d_index)[0], matrix(h_index)[0]]
layers = [layer.requires_grad_() for layer in layers]


def index():
    to_query, to_key, to_weights = layers
    return tokens @ to_query, tokens @ to_key, (tokens @ to_weights).mT


target = attention_weights(query, key, is_causal=True).mean(0)  # (n, n)
future = torch.ones(n, n, dtype=torch.bool).triu(1)


def index_scores(index_query, index_key, index_weights):
    products = torch.relu(index_query @ index_key.mT)  # (h_index, n, n)
    return (index_weights[..., None] * products).sum(0)  # (n, n)


def report(step):
    mask = indexer_choice(*index(), num_keys=count, is_causal=True).dense()
    share = (target * mask).sum(-1)[count:].mean()
    print(f"{step:14} {share:.3f}")


print(f"weight kept by {count} keys")
report("before")
optimiser = torch.optim.Adam(layers, lr=0.02)
for _ in range(400):
    scores = index_scores(*index()).masked_fill(future, -torch.inf)
    logs = scores.log_softmax(-1).masked_fill(future, 0.0)
    loss = torch.nn.functional.kl_div(logs, target, reduction="sum") / n
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
report("after")
best = target.topk(count).values.sum(-1)[count:].mean()
print(f"{'at most':14} {best:.3f}")

value = tokens @ matrix(d, h)
options = {"num_keys": count, "is_causal": True}
output = indexer_attention(query, key, value, *index(), **options)
print("the output has a gradient:", output.requires_grad)
# --8<-- [end:example]
