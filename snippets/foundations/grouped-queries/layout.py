"""Six query heads share two key heads: neighbours together, not in turn."""

# --8<-- [start:example]
import attnref
import torch

generator = torch.Generator().manual_seed(0)
query = torch.randn(1, 6, 5, 8, generator=generator)  # h = 6 heads
key, value = (
    torch.randn(1, 2, 7, 8, generator=generator) for _ in "kv"
)  # h_kv = 2 heads

shared = attnref.scaled_dot_product_attention(
    query, key, value, enable_gqa=True
)


def by_copying(copy):
    """As many key and value heads as query heads, by copies."""
    return attnref.scaled_dot_product_attention(query, copy(key), copy(value))


def interleaved(heads):
    return heads.repeat_interleave(3, dim=1)


def tiled(heads):
    return heads.repeat(1, 3, 1, 1)


numbers = torch.arange(2).view(1, 2, 1, 1)
for copy in (interleaved, tiled):
    order = copy(numbers).flatten().tolist()
    error = (by_copying(copy) - shared).abs().amax((0, 2, 3))
    wrong = (error > 1e-5).nonzero().flatten().tolist()
    print(f"{copy.__name__}: query heads 0 to 5 use key heads {order}")
    print(f"  heads with another result: {wrong or 'none'}")
# --8<-- [end:example]
