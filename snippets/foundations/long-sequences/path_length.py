"""How many steps the first word needs to be heard at the last position."""

# --8<-- [start:example]
from attnref.masks import causal, dyadic, sliding_window

n = 64


def steps(mask):
    """Layers with this mask until the last word has heard the first."""
    sees = mask.dense().float()
    heard, count = sees, 1
    while heard[-1, 0] == 0:
        heard = (heard @ sees).clamp(max=1)
        count += 1
    return count


for name, mask in {
    "the word before, as in a recurrence": sliding_window(
        n, window=2, is_causal=True
    ),
    "the last 16 words": sliding_window(n, window=16, is_causal=True),
    "distances 1, 2, 4, 8, …": dyadic(n),
    "every earlier word": causal(n),
}.items():
    print(f"{name:36} {mask.count():5} pairs {steps(mask):3} steps")
# --8<-- [end:example]
