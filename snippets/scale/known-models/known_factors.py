"""Factors of known models, and the spread of scores they start from."""

# --8<-- [start:example]
from attnref import scaling

plain = "components of variance 1"
unit = "vectors of length 1"
models = {  # d_k, the factor, and what it multiplies the products of
    "GPT-2": (64, 64**-0.5, plain),
    "Grok-1": (128, 0.08838834764831845, plain),
    "Gemma 2 27B": (128, 144**-0.5, plain),
    "Gemma 3 27B": (128, 168**-0.5, plain),
    "muP": (64, 8 / 64, plain),
    "muP, wider": (256, 8 / 256, plain),
    "YaRN, 4 times": (128, scaling.yarn(128, stretch=4), plain),
    "DeepSeek-V3": (192, scaling.yarn(192, stretch=40), plain),
    "gpt-oss": (64, scaling.yarn(64, stretch=32), plain),
    "nGPT": (64, 64**0.5, unit),
}
print("model          d_k   factor  deviation of scores")
for name, (d_k, factor, vectors) in models.items():
    # Deviation of a product: sqrt(d_k), and for unit vectors 1/sqrt(d_k).
    size = d_k**0.5 if vectors == plain else d_k**-0.5
    print(f"{name:13} {d_k:4}  {factor:7.4f}  {factor * size:7.3f}")
# --8<-- [end:example]
