"""What the checker says of attention from pages, the last one first."""

# --8<-- [start:example]
import torch
from attnref import paged_attention
from attnref.conformance import check


def attention(
    query, key, value, is_causal=False, scale=None, enable_gqa=False
):
    """Each query is the newest token of a text of its own, in shared pages."""
    (b, h, n, d), m, size = query.shape, key.shape[2], 3
    places = torch.arange(b * -(-m // size)).flip(0).view(b, -1)
    pool = []
    for side in (key, value):
        padded = side.new_empty(b, places.shape[1] * size, *side.shape[1::2])
        padded[:, :m] = side.transpose(1, 2)
        pages = padded.view(-1, size, *padded.shape[2:])
        pool.append(pages.flip(0))  # the last page first
    lengths = torch.full((b, n), m)
    if is_causal:
        lengths = torch.arange(1, n + 1).clamp(max=m).expand(b, n)
    output = paged_attention(
        query.transpose(1, 2).reshape(b * n, h, 1, d),
        *pool,
        places.repeat_interleave(n, dim=0),
        lengths.flatten(),
        scale=scale,
        enable_gqa=enable_gqa,
    )
    return output.view(b, n, h, -1).transpose(1, 2)


DTYPES = ("float64", "float32", "bfloat16", "float16")
verdicts = {}
for dtype in DTYPES:
    for result in check(attention, dtype=dtype, limit=None).results:
        verdicts.setdefault(result.property, []).append(result.verdict.value)

print(" " * 24, *(f"{dtype:12}" for dtype in DTYPES))
for name, said in verdicts.items():
    print(f"{name:24}", *(f"{verdict:12}" for verdict in said))
# --8<-- [end:example]
