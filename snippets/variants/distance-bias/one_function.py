"""ALiBi, KERPLE and the buckets of T5 through one function."""

# --8<-- [start:example]
import attnref
import torch
from attnref.minimal.distance_bias import distance_bias_attention
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
    past = bias.masked_fill(t > 0, -torch.inf)  # no later keys
    scaled = query * d**0.5 if name == "T5" else query
    minimal = distance_bias_attention(scaled, key, value, past)
    options = {"is_causal": True, "scale": 1.0 if name == "T5" else None}
    whole = attnref.distance_bias_attention(query, key, value, bias, **options)
    pairs = bias[:, j - i + n - 1]  # (h, n, n)
    square = attnref.scaled_dot_product_attention(
        query, key, value, pairs, **options
    )
    same = [torch.allclose(x, square, atol=1e-5) for x in (minimal, whole)]
    print(f"{name:6} {bias.numel()} numbers for {pairs.numel()}: {same}")
assert torch.equal(biases["ALiBi"][:, j - i + n - 1], alibi(h, n))
# --8<-- [end:example]
