"""How each variant is called, as its record says."""

# --8<-- [start:example]
import torch
from attnref import variants
from attnref.record import Example

generator = torch.Generator().manual_seed(0)
tokens = torch.randn(3, 1, 4, 256, 64, generator=generator)
for method in variants.records().values():
    print(method.call(Example(*tokens, generator=generator)))
# --8<-- [end:example]
