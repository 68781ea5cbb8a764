"""A sink is a gate that reads the scores of its row."""

# --8<-- [start:example]
import torch
from attnref import attend

generator = torch.Generator().manual_seed(0)
query, key = torch.randn(2, 5, 8, generator=generator, dtype=torch.float64)
value = torch.randn(5, 3, generator=generator, dtype=torch.float64)
sink = 1.5

scores = query @ key.mT / 8**0.5
extended = torch.cat([scores, torch.full((5, 1), sink)], dim=-1)
with_sink = torch.softmax(extended, -1)[:, :-1]  # the sink's value is 0

answer, _, lse = attend(query, key, value)
gate = torch.sigmoid(lse - sink)
same = torch.allclose(gate[:, None] * answer, with_sink @ value)
print(
    "sums of rows: ", [round(total, 3) for total in with_sink.sum(-1).tolist()]
)
print("gates:        ", [round(number, 3) for number in gate.tolist()])
print("same answers: ", same)
# --8<-- [end:example]
