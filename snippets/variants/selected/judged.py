"""What the checker says of attention to a few blocks, and to all of them."""

# --8<-- [start:example]
from attnref import moba_attention
from attnref.conformance import check


def some(query, key, value, is_causal=False, scale=None):
    chosen = {"block_size": 2, "count": 2}
    return moba_attention(
        query, key, value, **chosen, is_causal=is_causal, scale=scale
    )


def every(query, key, value, is_causal=False, scale=None):
    chosen = {"block_size": 2, "count": 10_000}
    return moba_attention(
        query, key, value, **chosen, is_causal=is_causal, scale=scale
    )


verdicts = {}
for attention in (some, every):
    for result in check(attention, limit=None).results:
        verdicts.setdefault(result.property, []).append(result.verdict.value)

print(" " * 24, "two blocks   all blocks")
for name, said in verdicts.items():
    if said != ["not claimed"] * 2:
        print(f"{name:24}", *(f"{verdict:12}" for verdict in said))
# --8<-- [end:example]
