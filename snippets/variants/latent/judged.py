"""What the checker says of latents that hold all keys and values."""

# --8<-- [start:example]
import torch
from attnref import latent_attention
from attnref.conformance import PROPERTIES, check


def attention(query, key, value, attn_mask=None, is_causal=False, scale=None):
    h, d_k, d_v = key.shape[-3], key.shape[-1], value.shape[-1]
    latent = torch.cat(
        [x.transpose(-3, -2).flatten(-2) for x in (key, value)], dim=-1
    )
    pick = torch.eye(latent.shape[-1], dtype=key.dtype, device=key.device)
    return latent_attention(
        query,
        latent,
        pick[: h * d_k].unflatten(0, (h, d_k)),
        pick[h * d_k :].unflatten(0, (h, d_v)),
        attn_mask,
        is_causal=is_causal,
        scale=scale,
    )


DTYPES = ("float64", "float32", "bfloat16", "float16")
# Latents as long as the keys of all heads are no measure of memory.
ASKED = [name for name in PROPERTIES if name != "memory_growth"]
verdicts = {}
for dtype in DTYPES:
    report = check(attention, only=ASKED, dtype=dtype, limit=None)
    for result in report.results:
        verdicts.setdefault(result.property, []).append(result.verdict.value)

print(" " * 24, *(f"{dtype:12}" for dtype in DTYPES))
for name, said in verdicts.items():
    print(f"{name:24}", *(f"{verdict:12}" for verdict in said))
# --8<-- [end:example]
