"""Greedy decoding with trees of drafts: the same text in fewer passes."""

# --8<-- [start:example]
import torch
from attnref import KVCache, MultiHeadAttention, masks
from attnref.positions import rotary

vocabulary, width = 12, 32
generator = torch.Generator().manual_seed(2)
embedding = torch.randn(vocabulary, width, generator=generator)
layers = [
    MultiHeadAttention(width, 4, rotate=rotary, generator=generator)
    for _ in range(2)
]
prompt = torch.randint(vocabulary, (6,), generator=generator).tolist()


@torch.no_grad()
def choices(tokens, caches, **options):
    """The most likely next token after each token."""
    x = embedding[tokens]
    for layer, cache in zip(layers, caches, strict=True):
        x = x + layer(x, is_causal=True, cache=cache, **options)
    return (x @ embedding.T).argmax(-1).tolist()


def draft(text):
    """The last token, and what has followed it before, as a tree."""
    tokens, parents = [text[-1]], [-1]
    for start in range(len(text) - 2, -1, -1):
        if text[start] != text[-1] or len(tokens) > 12:
            continue
        node = 0
        for token in text[start + 1 : start + 5]:
            known = [
                other
                for other, parent in enumerate(parents)
                if parent == node and tokens[other] == token
            ]
            if not known:
                tokens.append(token)
                parents.append(node)
            node = known[0] if known else len(tokens) - 1
    return tokens, parents


def accepted(tokens, parents, chosen):
    """The nodes of the path that the model would have written."""
    path, node = [], 0
    while node is not None:
        path.append(node)
        children = [c for c, parent in enumerate(parents) if parent == node]
        fitting = [c for c in children if tokens[c] == chosen[node]]
        node = fitting[0] if fitting else None
    return path


def write(count, draft):
    text, caches, passes = list(prompt), [KVCache(), KVCache()], 0
    choices(text[:-1], caches)  # the last token is the first root
    while len(text) < len(prompt) + count:
        tokens, parents = draft(text)
        past = caches[0].length
        chosen = choices(
            tokens,
            caches,
            attn_mask=masks.tree(parents, past=past),
            positions=masks.tree(parents).dense().sum(-1) - 1,
        )
        path = accepted(tokens, parents, chosen)
        for cache in caches:
            cache.keep(path, after=past)
        text += [chosen[node] for node in path]
        passes += 1
    return text[: len(prompt) + count], passes


plain, steps = write(60, lambda text: ([text[-1]], [-1]))
drafted, passes = write(60, draft)
print("the same text:", plain == drafted)
print(f"{steps} passes without drafts, {passes} with them")
# --8<-- [end:example]
