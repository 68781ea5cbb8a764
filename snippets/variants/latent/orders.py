"""Latent attention in both orders: the same outputs, not the same work."""

# --8<-- [start:example]
import torch
from attnref import cost
from attnref.minimal.latent import latent_attention, latent_attention_step

h, m, d, d_c, d_r = 16, 1024, 64, 256, 32
generator = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(shape, generator=generator)


latent, key_rotary = normal(m, d_c), normal(m, d_r)
key_up, value_up = (normal(h, d, d_c) / d_c**0.5 for _ in range(2))
orders = {False: latent_attention, True: latent_attention_step}

print("queries  absorb  million operations in products")
for n in (1, m):
    query, query_rotary = normal(h, n, d), normal(h, n, d_r)
    sizes = cost.Sizes(n=n, m=m, d_k=d, d_v=d, num_heads=h)
    outputs = []
    for absorb, form in orders.items():
        tensors = query, latent, key_up, value_up, query_rotary, key_rotary
        outputs += [form(*tensors)]
        spent = cost.of(
            "latent", sizes, latent_dim=d_c, rotary_dim=d_r, absorb=absorb
        )
        products = spent.operations.matmul / 1e6
        print(f"{n:7}  {absorb!s:6} {products:10.0f}")
    torch.testing.assert_close(*outputs, rtol=1e-4, atol=1e-4)
# --8<-- [end:example]
