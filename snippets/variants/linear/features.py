"""elu(x) + 1 is 0 in float32 where e^x still has all its digits."""

# --8<-- [start:example]
import torch
from attnref.variants.linear import elu_plus_one
from torch.nn.functional import elu

for x in (-10.0, -16.0, -17.5, -20.0):
    number = torch.tensor(x)
    naive = float(elu(number) + 1)
    print(f"x = {x:5}  sum {naive:.3e}  power {elu_plus_one(number):.3e}")
# --8<-- [end:example]
