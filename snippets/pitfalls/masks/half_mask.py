"""Three ways to forbid a key in half precision: two raise, one is right."""

# --8<-- [start:example]
import torch

scores = torch.tensor([[2.0, 1.0, 4.0, 3.0]], dtype=torch.float16)
padding = torch.tensor([False, False, False, True])  # True = padding

for number in (-1e9, torch.finfo(torch.float32).min, -torch.inf):
    try:
        weights = torch.softmax(scores.masked_fill(padding, number), -1)
        shown = " ".join(f"{weight:.2f}" for weight in weights[0])
    except RuntimeError as error:
        shown = error
    print(f"{number:9.1e}  {shown}")
# --8<-- [end:example]
