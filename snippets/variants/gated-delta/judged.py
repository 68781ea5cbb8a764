"""What the checker of attention says of it."""

# --8<-- [start:example]
import torch
from attnref import check, gated_delta_attention


def attention(query, key, value, scale=None, enable_gqa=False):
    rate = torch.full_like(key[..., 0], 0.5)
    return gated_delta_attention(
        query,
        key,
        value,
        log_decay=-rate,
        beta=rate,
        scale=scale,
        enable_gqa=enable_gqa,
    )


report = check(attention, limit=None)
print(report.verdict(), "\n")
right = [x.property for x in report.results if x.verdict.value == "pass"]
print("pass:", ", ".join(right))
# --8<-- [end:example]
