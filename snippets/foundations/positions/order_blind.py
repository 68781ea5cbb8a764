"""Does attention know the order of its words?"""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.sinusoidal import sinusoidal

generator = torch.Generator().manual_seed(0)
dog, bites, man, today = torch.randn(4, 8, generator=generator)
one = torch.stack([dog, bites, man, today])
other = torch.stack([man, bites, dog, today])


def attend(x, layers=1, **options):
    for _ in range(layers):
        x = attnref.scaled_dot_product_attention(x, x, x, **options)
    return x


def compare(name, left, right):
    same = [torch.allclose(left[i], right[i]) for i in (1, 3)]
    print(f"{name:17} bites: {same[0]!s:5}  today: {same[1]}")


print("the same in both sentences?")
compare("bidirectional", attend(one), attend(other))
compare("causal", attend(one, is_causal=True), attend(other, is_causal=True))
two = {"layers": 2, "is_causal": True}
compare("causal, 2 layers", attend(one, **two), attend(other, **two))
places = sinusoidal(4, 8)
compare("with positions", attend(one + places), attend(other + places))
# --8<-- [end:example]
