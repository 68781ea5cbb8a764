"""A mask multiplied after the softmax, and a softmax along the wrong axis."""

# --8<-- [start:example]
import torch
from attnref.masks import causal

generator = torch.Generator().manual_seed(0)
scores = torch.randn(4, 4, generator=generator)  # (queries, keys)
changed = scores.clone()
changed[:, 3] += 5.0  # another last word: another last column
changed[3] -= 1.0  # and another last row
may = causal(4).dense()


def right(scores):
    return torch.softmax(scores.masked_fill(~may, -torch.inf), dim=-1)


def too_late(scores):
    return torch.softmax(scores, dim=-1) * may


def wrong_axis(scores):
    return torch.softmax(scores.masked_fill(~may, -torch.inf), dim=-2)


print("            sums of the rows        the future moves the past")
for weigh in (right, too_late, wrong_axis):
    sums = "  ".join(f"{row:.2f}" for row in weigh(scores).sum(-1))
    moved = not torch.equal(weigh(scores)[:3], weigh(changed)[:3])
    print(f"{weigh.__name__:10}  {sums}  {moved}")
# --8<-- [end:example]
