"""The share of the core in layers of known models."""

# --8<-- [start:example]
from attnref import cost

# width, heads, key heads, hidden, matrices of the feed-forward layer
MODELS = {
    "BERT-base": (768, 12, 12, 3072, 2, [512]),
    "GPT-3 175B": (12_288, 96, 96, 49_152, 2, [2048]),
    "Llama 3.1 8B": (4096, 32, 8, 14_336, 3, [8192, 131_072]),
    "Llama 3.1 70B": (8192, 64, 8, 28_672, 3, [8192, 131_072]),
    "Llama 3.1 405B": (16_384, 128, 8, 53_248, 3, [8192, 131_072]),
}
print("model                n  all pairs  causal  half at n =  times D")
for name, (width, h, h_kv, hidden, matrices, lengths) in MODELS.items():
    d = width // h
    for n in lengths:
        sizes = cost.Sizes(
            n=n, m=n, d_k=d, d_v=d, num_heads=h, num_kv_heads=h_kv
        )
        around = cost.multihead(sizes, width, cost.Cost()).operations.matmul
        two = cost.feedforward(n, width, hidden).operations.matmul
        around += two * matrices // 2
        core = cost.of("fused", sizes).operations.matmul
        pairs = cost.allowed_pairs(n, n, window=(None, 0))
        half = cost.of("fused", sizes, pairs=pairs).operations.matmul
        crossing = n * around // core
        print(
            f"{name:14}  {n:6}  {core / (core + around):9.1%}  "
            f"{half / (half + around):6.1%}  {crossing:11}  "
            f"{crossing / width:7.2f}"
        )
# --8<-- [end:example]
