"""Finding where a NaN was born, forwards and backwards."""

# --8<-- [start:example]
import warnings

import attnref
import torch

generator = torch.Generator().manual_seed(0)
query, key, value = (
    torch.randn(3, 4, generator=generator, requires_grad=True) for _ in "qkv"
)
may = torch.ones(3, 3, dtype=torch.bool)
may[1] = False  # query 1 may attend to nothing


def by_hand():
    scores = query @ key.mT / 2
    return torch.softmax(scores.masked_fill(~may, -torch.inf), -1) @ value


def ours():
    return attnref.scaled_dot_product_attention(query, key, value, may)


warnings.simplefilter("ignore")  # they show the line; the error is enough here
for attend in (by_hand, ours):
    output = attend()
    print(attend.__name__, "rows with NaN:", output.isnan().any(-1).tolist())
    try:
        with torch.autograd.set_detect_anomaly(True):
            attend().sum().backward()
        print("  the gradients are finite:", bool(query.grad.isfinite().all()))
    except RuntimeError as error:
        print(" ", error)
# --8<-- [end:example]
