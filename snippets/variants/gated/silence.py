"""A softmax has to answer; a gate lets a head say nothing."""

# --8<-- [start:example]
import torch
from attnref import attend
from attnref.minimal.gated import gated_attention

values = torch.tensor([[3.0, 1.0], [3.2, 0.8], [2.8, 1.3], [3.1, 0.9]])
keys = torch.eye(4)
queries = {
    "finds the second key": 9.0 * keys[1:2],
    "finds nothing": torch.zeros(1, 4),
    "wants none of them": torch.full((1, 4), -9.0),
}
gates = {
    "finds the second key": 3.0,
    "finds nothing": -4.0,
    "wants none of them": -6.0,
}

print("                        weights  softmax         gated")
for name, query in queries.items():
    answer, weights, _ = attend(query, keys, values)
    tokens = torch.tensor([[gates[name]]])  # one token, one number
    heads = query[None], keys[None], values[None]  # one head
    (gated,) = gated_attention(*heads, tokens, torch.ones(1, 1, 1))
    print(
        f"{name:20} sum to {weights.sum():.2f} ",
        " ".join(f"{number:5.2f}" for number in answer[0].tolist()),
        "  ",
        " ".join(f"{number:5.2f}" for number in gated[0].tolist()),
    )
# --8<-- [end:example]
