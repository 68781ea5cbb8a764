"""Who stays within 1.5 times the error of PyTorch, judged in float64?"""

# --8<-- [start:example]
import attnref
import torch
from attnref import oracle, softmax
from torch.nn.functional import (
    scaled_dot_product_attention as pytorch_attention,
)

generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, 4, 61, 32, generator=generator)
exact = oracle.attend(
    *(tensor.double().numpy() for tensor in (query, key, value))
).output


def error(output):
    """Root mean square of the distance from the float64 result."""
    difference = output.double() - torch.from_numpy(exact)
    return difference.square().mean().sqrt()


scores = query @ key.mT / 32**0.5
weights = torch.softmax(scores, dim=-1)
candidates = {
    "attnref": attnref.scaled_dot_product_attention(query, key, value),
    "the formula, line by line": weights @ value,
    "weights kept in bfloat16": weights.bfloat16().float() @ value,
    "a last key forgotten": softmax.stable(scores[..., :-1]) @ value[:, :-1],
}
budget = 1.5 * error(pytorch_attention(query, key, value))
for name, output in candidates.items():
    print(f"{name:26}", "within" if error(output) <= budget else "outside")
# --8<-- [end:example]
