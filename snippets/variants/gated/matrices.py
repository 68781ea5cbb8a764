"""What comes between the value and the output projection of a head."""

# --8<-- [start:example]
import torch

D, d_v = 64, 8
generator = torch.Generator().manual_seed(0)


def normal(rows, columns):
    drawn = torch.randn(rows, columns, generator=generator)
    return (drawn / rows**0.5).double()


w_v, w_o, w_g = normal(D, d_v), normal(d_v, D), normal(D, d_v)
x = 8 * normal(D, 1).mT  # one token, of which the head takes an average

heads = {
    "none": lambda x: x @ w_v @ w_o,
    "headwise": lambda x: torch.sigmoid(x @ w_g[:, :1]) * (x @ w_v) @ w_o,
    "elementwise": lambda x: (torch.sigmoid(x @ w_g) * (x @ w_v)) @ w_o,
}
plain = heads["none"]
print("gate         twice the token  turned by")
for name, head in heads.items():
    growth = head(2 * x).norm() / head(x).norm()
    cosine = torch.cosine_similarity(head(x), plain(x)).clamp(max=1)
    angle = cosine.acos().rad2deg().item()
    print(f"{name:11}  {growth.item():7.2f} times    {angle:5.1f} degrees")
# --8<-- [end:example]
