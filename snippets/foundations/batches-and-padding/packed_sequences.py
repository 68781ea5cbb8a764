"""Sequences of 3, 5 and 2 tokens: alone, padded, and packed into one row."""

# --8<-- [start:example]
import attnref
import torch
from attnref import varlen_attention
from attnref.masks import packed
from attnref.minimal.padding import padded_attention

lengths = [3, 5, 2]
generator = torch.Generator().manual_seed(0)
row = torch.randn(3, 10, 4, generator=generator)  # queries, keys, values
attend = attnref.scaled_dot_product_attention

sequences = row.split(lengths, dim=1)  # (3, length, 4) each
alone = torch.cat([attend(*sequence) for sequence in sequences])  # (10, 4)

batch = torch.zeros(3, 3, 5, 4)  # (query, key, value; sequences; 5; 4)
for sample, sequence in enumerate(sequences):
    batch[:, sample, : lengths[sample]] = sequence
heads = batch[:, :, None]  # one head: (3; sequences, 1, 5, 4)
outputs = padded_attention(*heads, torch.tensor(lengths))[:, 0]
real = torch.cat([x[:n] for x, n in zip(outputs, lengths, strict=True)])

borders = torch.tensor([0, 3, 8, 10])
print("                      scores  same as alone")
for name, scores, output in (
    ("padded, keys masked", 3 * 5 * 5, real),
    ("packed, mask", 10 * 10, attend(*row, attn_mask=packed(lengths).dense())),
    (
        "packed, by borders",
        3**2 + 5**2 + 2**2,
        varlen_attention(*row, borders),
    ),
    ("packed, no mask", 10 * 10, attend(*row)),
):
    same = torch.allclose(output, alone, rtol=0, atol=1e-6)
    print(f"{name:20}  {scores:6}  {same}")
# --8<-- [end:example]
