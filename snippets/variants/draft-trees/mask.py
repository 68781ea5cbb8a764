"""The mask of a tree of drafts, and the positions of its nodes."""

# --8<-- [start:example]
import torch
from attnref import masks
from attnref.minimal.tree_mask import tree_mask

words = ["cat", "sat", "is", "on", "down", "asleep", "the"]
parents = [-1, 0, 0, 1, 1, 2, 3]
past = 5  # "We all saw that the", in the cache

mask = tree_mask(torch.tensor(parents))
positions = past + mask.sum(-1) - 1  # a node is the last that it sees
for word, seen, position in zip(words, mask, positions, strict=True):
    row = "".join(".#"[one] for one in seen.int())
    print(f"{word:7} {past * '#'} {row}  {position}")

whole = masks.tree(parents, past=past)
print("as attnref.masks.tree:", whole.dense()[:, past:].equal(mask))
print("pairs:", whole.count(), "of", len(parents) * (past + len(parents)))
# --8<-- [end:example]
