"""Three words read five others, whose order does not matter."""

# --8<-- [start:example]
import torch
from attnref.minimal.cross import cross_attention

generator = torch.Generator().manual_seed(0)


def draw(*shape):
    return torch.randn(shape, generator=generator)


x, memory = draw(3, 8), draw(5, 6)  # 3 words of width 8, 5 of width 6
weights = draw(4, 8), draw(4, 6), draw(7, 6)  # d_k = 4, d_v = 7

output = cross_attention(x, memory, *weights)
backwards = cross_attention(x, memory.flip(0), *weights)
alone = [cross_attention(word[None], memory, *weights) for word in x]
print("output:", tuple(output.shape))
for name, other in (
    ("memory backwards", backwards),
    ("one by one", torch.cat(alone)),
):
    same = torch.allclose(output, other, atol=1e-6)
    print(f"{name}: same output: {same}")
# --8<-- [end:example]
