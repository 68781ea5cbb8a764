"""A step for trees of drafts, judged with trees that are chains."""

# --8<-- [start:example]
import torch
from attnref import KVCache, check_steps, masks, scaled_dot_product_attention


def tree_step(query, key, value, cache, parents, mask):
    cache = cache or KVCache()
    allowed = mask(parents, past=cache.length)
    key, value = cache.append(key, value)
    return scaled_dot_product_attention(query, key, value, allowed), cache


def ancestors(parents, past):
    return masks.tree(parents, past=past).dense()


def parents_only(parents, past):
    nodes = torch.arange(len(parents))
    own = torch.tensor(parents)[:, None] == nodes  # (n, n)
    own |= nodes[:, None] == nodes
    before = torch.ones(len(parents), past, dtype=torch.bool)
    return torch.cat([before, own], dim=-1)


def chains(mask):
    def step(query, key, value, cache):
        parents = range(-1, query.shape[-2] - 1)
        return tree_step(query, key, value, cache, parents, mask)

    return step


for mask in (ancestors, parents_only):
    report = check_steps(chains(mask), limit=None)
    print(f"{mask.__name__}: {report.verdict('en')}")
    for result in report.failures:
        print(result.diagnosis("en").replace(". ", ".\n"))
        print("\n".join(result.details("en")[:-1]))
# --8<-- [end:example]
