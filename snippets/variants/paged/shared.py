"""Prompts that begin alike, and several answers to one of them."""

# --8<-- [start:example]
import torch
from attnref import PagedCache

cache = PagedCache(num_pages=16, block_size=4)
instructions = [31, 41, 59, 26, 53, 58, 97, 93, 23, 84]
prompts = [[*instructions, *question] for question in ([1, 2], [3], [1, 5])]


def project(tokens):
    """Stands for the layer below; 2 key heads of width 3."""
    return torch.zeros(2, len(tokens), 3), torch.zeros(2, len(tokens), 3)


def begin(prompt):
    sequence, free = cache.start(prompt), cache.free_pages
    found = sequence.length
    new = prompt[found:]  # only these are computed
    sequence.append(*project(new), new)
    taken = free - cache.free_pages
    pages = cache.block_table([sequence])[0][0].tolist()
    print(f"{len(prompt)} tokens, {found} found, {taken} more pages: {pages}")
    return sequence


sequences = [begin(prompt) for prompt in prompts]

answers = [sequences[1].fork() for _ in range(2)]
for token, answer in enumerate(answers):
    answer.append(*project([token]), [token])
table, lengths = cache.block_table([sequences[1], *answers])
print("the second prompt and two answers:", table.tolist())

for sequence in (*sequences, *answers):
    sequence.free()
print(cache.free_pages, "pages are free, and still known:")
begin([*instructions, 7])
# --8<-- [end:example]
