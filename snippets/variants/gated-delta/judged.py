"""What the checker of attention says of it."""

# --8<-- [start:example]
import torch
from attnref import gated_delta_attention
from attnref.conformance import check


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


said = {}
for result in check(attention, limit=None).results:
    said.setdefault(result.verdict.value, []).append(result.property)
for verdict in ("pass", "wrong"):
    print(verdict + ":", ", ".join(said[verdict]), "\n")
print("others:", *(v for v in said if v not in ("pass", "wrong")))
# --8<-- [end:example]
