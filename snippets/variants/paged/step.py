"""A step with a cache in pages, judged by the checker."""

# --8<-- [start:example]
from attnref import PagedCache, check_steps, paged_attention


def step(query, key, value, cache):
    """A piece of each text; the cache is the pool and who has which page."""
    pool, texts = cache or (PagedCache(num_pages=4096, block_size=16), [])
    texts = texts or [pool.start() for _ in query]
    for text, *new in zip(texts, key, value, strict=True):
        text.append(*new)
    table, lengths = pool.block_table(texts)
    output = paged_attention(query, pool.keys, pool.values, table, lengths)
    return output, (pool, texts)


report = check_steps(step, limit=None)
print(report.verdict("en"))
# --8<-- [end:example]
