"""A dot product is a matrix product, if the shapes say so."""

# --8<-- [start:example]
import torch

a = torch.tensor([1.0, 2.0, 3.0])
b = torch.tensor([4.0, 5.0, 6.0])

print("dot product  ", (a @ b).item(), "of shape", tuple((a @ b).shape))
print(
    "row @ column ",
    (a[None] @ b[:, None]).item(),
    "of shape",
    tuple((a[None] @ b[:, None]).shape),
)
print("column @ row  has shape", tuple((a[:, None] @ b[None]).shape))
print("a * b        ", (a * b).tolist(), "is not a product of matrices")
# --8<-- [end:example]
