"""The mask of a tree of drafts, and the positions of its nodes."""

# --8<-- [start:example]
from attnref import masks

words = ["cat", "sat", "is", "on", "down", "asleep", "the"]
parents = [-1, 0, 0, 1, 1, 2, 3]
past = 5  # "We all saw that the", in the cache

mask = masks.tree(parents, past=past)
positions = mask.dense().sum(-1) - 1  # a node is the last that it sees
rows = mask.picture().split("\n")
for node, row in enumerate(rows):
    print(f"{words[node]:7} {row[:past]} {row[past:]}  {positions[node]}")
print("pairs:", mask.count(), "of", len(parents) * (past + len(parents)))
# --8<-- [end:example]
