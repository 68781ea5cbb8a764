"""What the scores would take: the device "meta" knows sizes, holds nothing."""

# --8<-- [start:example]
import torch

half = {"dtype": torch.float16, "device": "meta"}
for n in (1024, 4096, 16384):
    query = torch.empty(8, 32, n, 128, **half)  # (b, h, n, d_k)
    scores = query @ query.mT
    sizes = [tensor.nbytes / 2**30 for tensor in (query, scores)]
    print("n = {:5}: query {:6} GiB, scores {:5} GiB".format(n, *sizes))
# --8<-- [end:example]
