"""The error against the number of bits: half a step, twice as small a bit."""

# --8<-- [start:example]
import attnref
import torch

n, d = 512, 64
generator = torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, n, d, generator=generator)
exact = attnref.scaled_dot_product_attention(q, k, v)


def rounded(tokens, bits):
    largest = 2 ** (bits - 1) - 1  # 127 for eight bits
    step = tokens.abs().amax(-1, keepdim=True) / largest
    return (tokens / step).round() * step


for bits in (8, 7, 6, 5, 4, 3):
    found = attnref.scaled_dot_product_attention(
        rounded(q, bits), rounded(k, bits), v
    )
    error = (found - exact).norm() / exact.norm()
    print(f"{bits} bits: relative error {error:.3f}")
# --8<-- [end:example]
