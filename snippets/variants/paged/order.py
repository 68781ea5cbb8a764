"""Two texts in one pool, whose pages may lie in any order."""

# --8<-- [start:example]
import torch
from attnref import PagedCache, paged_attention, scaled_dot_product_attention

h, h_kv, d = 4, 2, 8
generator = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(shape, generator=generator)


cache = PagedCache(num_pages=8, block_size=4)
one, other = cache.start(), cache.start()
for _ in range(10):  # both texts grow at the same time
    for text in (one, other):
        text.append(normal(h_kv, 1, d), normal(h_kv, 1, d))

query = normal(2, h, 1, d)  # the newest of each text
table, lengths = cache.block_table([one, other])
keys, values = cache.keys, cache.values
output = paged_attention(query, keys, values, table, lengths, enable_gqa=True)
print("pages of each text:", table.tolist())

order = torch.randperm(8, generator=generator)
moved = order.argsort()[table]  # where each page has gone
again = paged_attention(
    query, keys[order], values[order], moved, lengths, enable_gqa=True
)
print("in another order:  ", moved.tolist())
print("same bits:", torch.equal(output, again))

key, value = one.gather()  # in order: (h_kv, 10, d)
alone = scaled_dot_product_attention(query[0], key, value, enable_gqa=True)
print("as if alone:", torch.allclose(output[0], alone, atol=1e-6))
# --8<-- [end:example]
