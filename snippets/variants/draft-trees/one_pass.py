"""One pass over a tree gives the rows that each path would get alone."""

# --8<-- [start:example]
import torch
from attnref import KVCache, MultiHeadAttention, masks
from attnref.positions import rotary

parents = [-1, 0, 0, 1, 1, 2, 3]
past, width = 5, 32
generator = torch.Generator().manual_seed(0)
layers = [
    MultiHeadAttention(width, 4, rotate=rotary, generator=generator)
    for _ in range(2)
]
text = torch.randn(past, width, generator=generator)
drafts = torch.randn(len(parents), width, generator=generator)


def read(tokens, caches, **options):
    for layer, cache in zip(layers, caches, strict=True):
        tokens = tokens + layer(tokens, is_causal=True, cache=cache, **options)
    return tokens


def path(node):
    return [] if node < 0 else [*path(parents[node]), node]


with torch.no_grad():
    caches = [KVCache(), KVCache()]
    read(text, caches)
    mask = masks.tree(parents, past=past)
    depths = masks.tree(parents).dense().sum(-1) - 1  # after the past
    rows = read(drafts, caches, attn_mask=mask, positions=depths)

    for node in range(len(parents)):
        alone = torch.cat([text, drafts[path(node)]])
        expected = read(alone, [KVCache(), KVCache()])[-1]
        same = torch.allclose(rows[node], expected, atol=1e-5)
        print(f"{node}: path {path(node)}, as if alone: {same}")

    places = torch.arange(len(parents))
    caches = [KVCache(), KVCache()]
    read(text, caches)
    wrong = read(drafts, caches, attn_mask=mask, positions=places)
changed = (wrong - rows).abs().amax(-1) > 0.01
print("changed by places as positions:", changed.nonzero()[:, 0].tolist())
# --8<-- [end:example]
