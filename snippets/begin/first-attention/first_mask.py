"""Two sentences of different length in one batch, read from left to right."""

# --8<-- [start:example]
import attnref
import torch
from attnref.masks import causal, padding

x = torch.eye(4).expand(2, 4, 4)[
    :, None
]  # (batch, heads, n, d): four different words
mask = causal(4) & padding(
    [4, 2], 4
)  # the second sentence has two words, then padding

weights = attnref.attention_weights(x, x, attn_mask=mask.dense())
for name, sample in zip(
    ["four words", "two words"], weights[:, 0], strict=True
):
    print(name)
    for row in sample:
        print("  ", "  ".join(f"{weight:.2f}" for weight in row))

nothing = torch.zeros(4, 4, dtype=torch.bool)
output = attnref.scaled_dot_product_attention(x, x, x, attn_mask=nothing)
print("a query that may attend to nothing gets", output[0, 0, 0].tolist())
# --8<-- [end:example]
