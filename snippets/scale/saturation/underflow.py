"""When a small gradient becomes a gradient of exactly 0."""

# --8<-- [start:example]
import torch

print("                 float32                      float64")
print("lead   winner's     loser's         winner's     loser's")
for lead in (5.0, 20.0, 60.0, 120.0):
    cells = []
    for dtype in (torch.float32, torch.float64):
        s = torch.tensor([lead, 0.0], dtype=dtype, requires_grad=True)
        p = torch.softmax(s, dim=-1)
        # The loss is the first weight: g = (1, 0).
        winner, loser = torch.autograd.grad(p[0], s)[0].tolist()
        cells.append(f"{winner:z11.1e} {loser:z11.1e}")
    print(f"{lead:4.0f}" + "     ".join(cells))
# --8<-- [end:example]
