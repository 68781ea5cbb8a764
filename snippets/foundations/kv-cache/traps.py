"""Two ways to spoil a cached step: the wrong mask, the wrong position."""

# --8<-- [start:example]
import torch
import torch.nn.functional as F
from attnref import scaled_dot_product_attention as attend
from attnref.masks import causal
from attnref.positions import rotary

generator = torch.Generator().manual_seed(0)
q, k, v = (torch.randn(6, 8, generator=generator) for _ in "qkv")
whole = F.scaled_dot_product_attention(
    *(x[None, None] for x in (q, k, v)), is_causal=True
)[0, 0]

newest = q[5:]  # one query, six keys in the cache
wrong = attend(newest, k, v, is_causal=True)
print("no mask: right:", torch.allclose(attend(newest, k, v), whole[5:]))
print("is_causal=True: right:", torch.allclose(wrong, whole[5:]))
print("  it returned the first value:", torch.equal(wrong, v[:1]))

last_two = q[4:]  # two queries, six keys
for alignment in ("top-left", "bottom-right"):
    mask = causal(2, 6, alignment=alignment)
    output = attend(last_two, k, v, attn_mask=mask.dense())
    print(f"{alignment}: right: {torch.allclose(output, whole[4:])}")
    print(mask.picture())

keys = rotary(k)  # the cache holds keys that are turned already
right = attend(rotary(q), keys, v)[5:]
for offset in (5, 0):
    output = attend(rotary(newest, offset=offset), keys, v)
    same = torch.allclose(output, right, atol=1e-6)
    print(f"query turned as position {offset}: right: {same}")
# --8<-- [end:example]
