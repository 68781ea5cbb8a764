"""A step with a cache that aligns its mask top-left, judged by the checker."""

# --8<-- [start:example]
import torch
import torch.nn.functional as F
from attnref import check_steps


def step(query, key, value, cache):
    if cache is not None:
        key = torch.cat([cache[0], key], dim=-2)
        value = torch.cat([cache[1], value], dim=-2)
    several = query.shape[-2] > 1
    output = F.scaled_dot_product_attention(
        query, key, value, is_causal=several
    )
    return output, (key.clone(), value.clone())


report = check_steps(step, limit=None)
print(report.verdict("en"))
(result,) = report.failures
print(result.diagnosis("en").replace(". ", ".\n"))
print("\n".join(result.details("en")[:-1]))
# --8<-- [end:example]
