"""Which bucket each distance is in, with the sizes of T5."""

# --8<-- [start:example]
import torch
from attnref.positions import relative_buckets

print("encoder:")
for begin, end in ((-3, 4), (-16, -7), (7, 16)):
    distance = torch.arange(begin, end)
    print(
        " ",
        dict(
            zip(
                distance.tolist(),
                relative_buckets(distance).tolist(),
                strict=True,
            )
        ),
    )

past = -torch.arange(200)
bucket = relative_buckets(past, bidirectional=False)
print("decoder, from which distance on:")
first = {b: t for t, b in reversed(list(enumerate(bucket.tolist())))}
print(" ", {b: first[b] for b in (0, 1, 15, 16, 17, 24, 30, 31)})
# --8<-- [end:example]
