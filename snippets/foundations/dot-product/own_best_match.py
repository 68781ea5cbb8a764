"""How often is a random vector its own best match by the dot product?"""

# --8<-- [start:example]
import torch
from attnref import similarity

generator = torch.Generator().manual_seed(0)
print("  vectors  width   own best match   dot and distance agree")
for n, width, sets in [
    (32, 2, 2000),
    (32, 4, 2000),
    (32, 16, 2000),
    (32, 64, 2000),
    (1024, 16, 10),
]:
    x = torch.randn(sets, n, width, generator=generator)
    own = similarity.dot_scores(x, x).argmax(-1) == torch.arange(n)
    # Other vectors as queries: is the best key also the nearest one?
    q = torch.randn(sets, n, width, generator=generator)
    by_dot = similarity.dot_scores(q, x).argmax(-1)
    by_distance = similarity.euclidean_scores(q, x).argmax(-1)
    agree = (by_dot == by_distance).float().mean()
    print(f"{n:9} {width:6} {own.float().mean():16.2f} {agree:24.2f}")
# --8<-- [end:example]
