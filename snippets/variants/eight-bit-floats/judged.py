"""What the checker says of attention on eight-bit floats."""

# --8<-- [start:example]
from functools import partial

import torch
from attnref import check, quantized_attention

eight = partial(quantized_attention, dtype=torch.float8_e4m3fn, weights=True)
strict = partial(eight, smooth=False)

report = check(eight, only=["oracle"], limit=None)
print("asked for the formula:", report.verdict())
for name, function in (
    ("with the mean key", eight),
    ("without it", strict),
    ("without it, values rounded", partial(strict, values=True)),
):
    asked = ["oracle", "causality"]
    report = check(function, approximate=True, only=asked, limit=None)
    print(f"approximate, {name}:", report.verdict())
    for result in report.results:
        if result.property == "oracle":
            print(" ", result.diagnosis())
# --8<-- [end:example]
