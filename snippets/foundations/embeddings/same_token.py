"""One token, three occurrences: equal before attention, different after."""

# --8<-- [start:example]
import attnref
import torch
from attnref.positions import sinusoidal

width = 16
generator = torch.Generator().manual_seed(0)
sentences = "we sat by the bank", "the bank lent the bank money"
tokens = sorted(set(" ".join(sentences).split()))
table = torch.randn(len(tokens), width, generator=generator)


def embed(sentence):
    return table[[tokens.index(token) for token in sentence.split()]]


def attend(x, **options):
    return attnref.scaled_dot_product_attention(x, x, x, **options)


def distance(one, other):
    return f"{(one - other).norm():.2f}"


river, money = map(embed, sentences)
print("river and money, before:", distance(river[4], money[1]))
after = attend(river)[4], attend(money)[1]
print("river and money, after: ", distance(*after))
print("twice in one sentence")
y = attend(money)
print("  no positions:", distance(y[1], y[4]))
y = attend(money, is_causal=True)
print("  causal mask: ", distance(y[1], y[4]))
y = attend(money + sinusoidal(6, width))
print("  positions:   ", distance(y[1], y[4]))
# --8<-- [end:example]
