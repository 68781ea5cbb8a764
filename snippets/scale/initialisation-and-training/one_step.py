"""By how much one step of an optimiser moves a score, by width."""

# --8<-- [start:example]
import torch

rows, n, step = 2000, 16, 0.01
generator = torch.Generator().manual_seed(0)

print("           one step of Adam      one step of descent")
print(" d_k  1/sqrt(d_k)     1/d_k  1/sqrt(d_k)     1/d_k")
for d_k in (16, 64, 256, 1024):
    query = torch.randn(rows, d_k, generator=generator)
    key = torch.randn(rows, n, d_k, generator=generator)
    moved = []
    for c in (d_k**-0.5, 1 / d_k):
        q = query.clone().requires_grad_()
        scores = c * (key @ q[..., None])[..., 0]  # (rows, n)
        loss = -scores.log_softmax(-1)[:, 0].sum()  # find key 0
        (gradient,) = torch.autograd.grad(loss, q)
        for direction in (gradient.sign(), gradient):
            moved.append((c * -step * direction * key[:, 0]).sum(-1).mean())
    adam_root, descent_root, adam_full, descent_full = moved
    print(
        f"{d_k:4}  {adam_root:11.4f}  {adam_full:8.4f}"
        f"  {descent_root:11.5f}  {descent_full:8.5f}"
    )
# --8<-- [end:example]
