"""The smallest attention: one query, two keys, two values of one number."""

# --8<-- [start:example]
import attnref
import torch

query = torch.tensor([[1.0, 0.0]])
key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
value = torch.tensor([[10.0], [20.0]])

output, weights, _ = attnref.attend(query, key, value)
print("weights", " ".join(f"{weight:.4f}" for weight in weights[0]))
print("output ", f"{output.item():.4f}")
# --8<-- [end:example]
