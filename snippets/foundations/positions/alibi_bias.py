"""The bias of ALiBi, head by head."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.alibi import alibi, alibi_slopes

heads, n = 4, 6
slopes = alibi_slopes(heads)
print("slopes:", slopes.tolist())
print("added to the last row, first head:", alibi(heads, n)[0, -1].tolist())

# With equal scores the weights show what the bias alone does.
x = torch.zeros(1, heads, n, 4)
weights = attnref.attention_weights(x, x, alibi(heads, n), is_causal=True)
for head in range(heads):
    row = "  ".join(f"{weight:.3f}" for weight in weights[0, head, -1])
    print(f"head {head}: {row}")
# --8<-- [end:example]
