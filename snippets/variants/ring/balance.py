"""Who computes how much under a causal mask, by layout."""

# --8<-- [start:example]
from attnref import cost

n, ranks = 2**20, 8
print("pairs of each rank, divided by the mean; mean over maximum")
for layout in ("contiguous", "striped", "zigzag"):
    work = [
        cost.rank_pairs(n, ranks=ranks, rank=rank, layout=layout).pairs
        for rank in range(ranks)
    ]
    mean = sum(work) / ranks
    shares = " ".join(f"{one / mean:.2f}" for one in work)
    print(f"{layout:11}{shares}   {mean / max(work):.3f}")
# --8<-- [end:example]
