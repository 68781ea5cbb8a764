"""What scaled_dot_product_attention holds where it takes no fused kernel."""

# --8<-- [start:example]
import torch
from attnref.bench.memory import peak_bytes
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
h, n, d = 8, 1024, 64
q, k, v = torch.randn(3, 1, h, n, d, generator=generator)
mask = torch.zeros(n, n, requires_grad=True)
narrow = v[..., : d // 2]


def held(*call, **options):
    def run():
        return F.scaled_dot_product_attention(*call, **options)

    table = h * n * n * q.itemsize
    return peak_bytes(run, torch.device("cpu")) / table


print(f"no batch dimension    {held(q[0], k[0], v[0]):.0f} tables")
print(f"narrower values       {held(q, k, narrow):.0f}")
print(f"dropout               {held(q, k, v, dropout_p=0.1):.0f}")
print(f"a mask that learns    {held(q, k, v, mask):.0f}")
print("and repaired:")
print(f"a batch of one        {held(q[0][None], k[0][None], v[0][None]):.0f}")
zeros = torch.zeros_like(narrow)
filled = torch.cat([narrow, zeros], -1)
print(f"values filled up      {held(q, k, filled):.0f}")
# --8<-- [end:example]
