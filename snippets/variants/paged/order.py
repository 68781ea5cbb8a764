"""Two texts in one pool, whose pages may lie in any order."""

# --8<-- [start:example]
import torch
from attnref import PagedCache, paged_attention, scaled_dot_product_attention
from attnref.minimal.paged import paged_attention_step

h, d = 2, 8
generator = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(shape, generator=generator)


cache = PagedCache(num_pages=8, block_size=4)
one, other = cache.start(), cache.start()
for _ in range(10):  # both texts grow at the same time
    for text in (one, other):
        text.append(normal(h, 1, d), normal(h, 1, d))

query = normal(2, h, 1, d)  # the newest of each text
table, lengths = cache.block_table([one, other])
keys, values = cache.keys, cache.values.nan_to_num()  # unused places
output = paged_attention_step(query, keys, values, table, lengths)
print("pages of each text:", table.tolist())

order = torch.randperm(8, generator=generator)
moved = order.argsort()[table]  # where each page has gone
again = paged_attention_step(query, keys[order], values[order], moved, lengths)
print("in another order:  ", moved.tolist())
print("same bits:", torch.equal(output, again))

key, value = one.gather()  # in order: (h, 10, d)
alone = scaled_dot_product_attention(query[0], key, value)
print("as if alone:", torch.allclose(output[0], alone, atol=1e-6))
whole = paged_attention(query, cache.keys, cache.values, table, lengths)
print("attnref:", torch.allclose(output, whole, atol=1e-6))
# --8<-- [end:example]
