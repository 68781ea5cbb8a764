"""How much self-attention can enlarge a small change of its input."""

# --8<-- [start:example]
import attnref
import torch


def self_attention(x):
    return attnref.scaled_dot_product_attention(x, x, x, scale=1.0)


for t in (1.0, 10.0, 100.0, 1000.0):
    x = torch.tensor([[0.0], [t], [-t]], dtype=torch.float64)
    slopes = torch.autograd.functional.jacobian(self_attention, x)
    stretch = torch.linalg.matrix_norm(slopes.view(3, 3), ord=2)
    print(f"t = {t:6g}: stretch {stretch:12.4g}  2t²/3 = {2 * t**2 / 3:12.4g}")
# --8<-- [end:example]
