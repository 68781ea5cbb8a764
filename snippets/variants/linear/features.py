"""elu(x) + 1 is 0 in float32 where e^x still has all its digits."""

# --8<-- [start:example]
import torch
from torch.nn.functional import elu, relu

for x in (-10.0, -16.0, -17.5, -20.0):
    number = torch.tensor(x)
    naive = float(elu(number) + 1)
    power = torch.exp(number.clamp(max=0)) + relu(number)
    print(f"x = {x:5}  sum {naive:.3e}  power {power:.3e}")
# --8<-- [end:example]
