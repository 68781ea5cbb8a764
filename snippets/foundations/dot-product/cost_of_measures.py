"""Operations in matrix products, for each measure of similarity."""

# --8<-- [start:example]
import torch
from attnref import similarity
from torch.utils.flop_counter import FlopCounterMode

n, m, d_k = 512, 512, 64
query, key = torch.zeros(n, d_k), torch.zeros(m, d_k)
for measure in (
    similarity.dot_scores,
    similarity.cosine_scores,
    similarity.euclidean_scores,
):
    with FlopCounterMode(display=False) as counter:
        measure(query, key)
    print(f"{measure.__name__:17}", counter.get_total_flops())
print(f"{'2 n m d_k':17}", 2 * n * m * d_k)
# --8<-- [end:example]
