"""A run of equal keys weighs as one key: why Linformer is another function."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.linformer import linformer_attention

tokens = torch.zeros(4, 1)  # four equal keys, so all weights are equal
value = torch.tensor([[0.0], [0.0], [0.0], [1.0]])
runs = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 3]]) / 3  # three tokens, and one

attention = attnref.scaled_dot_product_attention(tokens, tokens, value)
linformer = linformer_attention(tokens, tokens, value, runs, runs)
counted = torch.log(torch.tensor([3.0, 1.0]))  # how many keys a run has
mended = attnref.scaled_dot_product_attention(
    tokens, runs @ tokens, runs @ value, counted.expand(4, 2)
)
for name, output in (
    ("attention to four keys", attention),
    ("attention to two means", linformer),
    ("with the counts added", mended),
):
    print(f"{name}: {output[0].item():.2f}")
# --8<-- [end:example]
