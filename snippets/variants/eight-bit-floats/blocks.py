"""The error against the number of tokens that share a step."""

# --8<-- [start:example]
import attnref
import torch
from attnref import quantized_attention

n, d = 1024, 64
generator = torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, n, d, generator=generator)
rare = torch.rand(n, 1, generator=generator) < 0.02  # one query in fifty
exact = attnref.scaled_dot_product_attention(q, k, v)


def error(factor, **options):
    """Of the other rows, when the rare queries are so many times as large."""
    large = torch.where(rare, factor * q, q)
    off = quantized_attention(large, k, v, **options) - exact
    return float((off * ~rare).norm() / (exact * ~rare).norm())


formats = {
    "int8": torch.int8,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e2m1": torch.float4_e2m1fn_x2,
}
print("tokens   all alike                      some 30 times as large")
print("a step " + f"{'':2}".join(f"{name:>6}" for name in 2 * list(formats)))
for size in (1, 4, 16, 64, 256, 1024):
    errors = [
        error(factor, dtype=dtype, block_size=size)
        for factor in (1, 30)
        for dtype in formats.values()
    ]
    print(f"{size:6} " + "  ".join(f"{x:6.3f}" for x in errors))
# --8<-- [end:example]
