"""Two keys whose products differ by 8: both ends of the scale factor."""

# --8<-- [start:example]
import torch
from attnref import softmax

x = torch.tensor([8.0, 0.0], dtype=torch.float64)
print("  factor c   p(1 - p)  c p(1 - p)")
for c in (4, 1, 1 / 8, 1 / 64, 1 / 4096):
    p = softmax.stable(c * x)
    # p[1], the small weight, has all its digits; 1 - p[0] would not.
    through_scores = softmax.jacobian(p)[1, 1]
    through_products = softmax.jacobian(p, scale=c)[1, 1]
    print(f"{c:10.5f}  {through_scores:9.2e}  {through_products:9.2e}")
# --8<-- [end:example]
