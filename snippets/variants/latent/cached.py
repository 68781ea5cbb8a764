"""Decoding from latents: what is kept, and that it is one causal pass."""

# --8<-- [start:example]
import torch
from attnref import KVCache, latent_attention
from attnref.positions import rotary

h, n, d, d_c, d_r = 16, 100, 64, 256, 32
generator = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(shape, generator=generator)


latent, key_rotary = normal(n, d_c), normal(n, d_r)
query, query_rotary = normal(h, n, d), normal(h, n, d_r)
matrices = [normal(h, d, d_c) / d_c**0.5 for _ in range(2)]

cache, steps = KVCache(max_length=n), []
for t in range(n):
    now = slice(t, t + 1)
    latents, keys = cache.append(
        latent[now], rotary(key_rotary[now], offset=t)
    )
    steps += [
        latent_attention(
            query[:, now],
            latents,
            *matrices,
            query_rotary=rotary(query_rotary[:, now], offset=t),
            key_rotary=keys,
        )
    ]

whole = latent_attention(
    query,
    latent,
    *matrices,
    query_rotary=rotary(query_rotary),
    key_rotary=rotary(key_rotary),
    is_causal=True,
)
same = torch.allclose(torch.cat(steps, dim=1), whole, rtol=1e-4, atol=1e-4)
print("one causal pass:", same)
print("numbers per token:", cache.nbytes // (4 * n))
print("as keys and values of all heads:", h * (d + d_r + d))
# --8<-- [end:example]
