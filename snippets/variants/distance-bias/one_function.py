"""ALiBi, KERPLE and the buckets of T5 through one function."""

# --8<-- [start:example]
import torch
from attnref import distance_bias_attention, scaled_dot_product_attention
from attnref.positions import alibi, alibi_slopes, distances, relative_buckets

h, n, d = 4, 300, 16
generator = torch.Generator().manual_seed(0)
query, key, value = torch.randn(3, h, n, d, generator=generator)
t = distances(n)  # (2 n - 1,), from -(n - 1) to n - 1

slopes = alibi_slopes(h)[:, None]
one, two = torch.rand(2, h, 1, generator=generator)
table = torch.randn(h, 32, generator=generator)
biases = {
    "ALiBi": -slopes * t.abs(),
    "KERPLE": -one * torch.log1p(two * t.abs()),
    "T5": table[:, relative_buckets(t, bidirectional=False)],
}

i, j = torch.arange(n)[:, None], torch.arange(n)
for name, bias in biases.items():
    options = {"is_causal": True, "scale": 1.0 if name == "T5" else None}
    ours = distance_bias_attention(query, key, value, bias, **options)
    pairs = bias[:, j - i + n - 1]  # (h, n, n)
    square = scaled_dot_product_attention(query, key, value, pairs, **options)
    same = torch.allclose(ours, square, atol=1e-5)
    print(f"{name:6} {bias.numel()} numbers for {pairs.numel()}: {same}")
assert torch.equal(biases["ALiBi"][:, j - i + n - 1], alibi(h, n))
# --8<-- [end:example]
