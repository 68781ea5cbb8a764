"""The formula of the softmax as it stands, and with the maximum taken out."""

# --8<-- [start:example]
import torch
from attnref.minimal.stable_softmax import stable_softmax

for dtype, numbers in (
    (torch.float32, [88.0, 87.0]),
    (torch.float32, [89.0, 88.0]),
    (torch.float16, [12.0, 11.0]),
    (torch.float64, [-1000.0, -1001.0]),
):
    scores = torch.tensor(numbers, dtype=dtype)
    powers = torch.exp(scores)
    print(
        f"{dtype!s:13} {numbers!s:18}",
        "naive",
        " ".join(f"{weight:.3f}" for weight in powers / powers.sum()),
        " stable",
        " ".join(f"{weight:.3f}" for weight in stable_softmax(scores)),
    )
# --8<-- [end:example]
