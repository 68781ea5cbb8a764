"""Five short questions about attention, answered by the machine."""

# --8<-- [start:example]
import torch

generator = torch.Generator().manual_seed(0)
numbers = {"generator": generator, "dtype": torch.float64}


def weights(q, k):
    return torch.softmax(q @ k.mT / k.shape[-1] ** 0.5, dim=-1)


x = torch.randn(5, 4, **numbers)  # five words of width 4
wide_q, wide_k = torch.randn(2, 4, 4, **numbers)
parts = [wide_q[:, :2], wide_q[:, 2:]]  # two matrices of width 2
joined = torch.cat([x @ part for part in parts], dim=-1)
print("one matrix of 4 is two of 2:", torch.allclose(x @ wide_q, joined))

q, k = x @ wide_q, x @ wide_k
one, two = weights(q, k), weights(q[:, :2], k[:, :2])
print("one head of 4 is a head of 2:", torch.allclose(one, two))

row, column = x[:1], x[1:2].mT
same = torch.allclose((row @ column)[0, 0], torch.dot(x[0], x[1]))
print("a dot product is a 1×1 product:", same, (row @ column).shape)

ones = torch.ones(5, dtype=torch.float64)
print("each row sums to 1:", torch.allclose(one.sum(-1), ones))

order = torch.tensor([4, 2, 0, 1, 3])
shuffled = weights(q, k[order]) @ x[order]
print("the order of the keys matters:", not torch.allclose(shuffled, one @ x))
# --8<-- [end:example]
