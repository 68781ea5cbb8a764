"""What choosing costs, and what it saves, by the sizes of three models."""

# --8<-- [start:example]
from attnref import cost


def sizes(n, **options):
    return cost.Sizes(n=n, m=n, **options)


heads = {"num_heads": 128}
latents = {"d_k": 576, "d_v": 512, **heads, "num_kv_heads": 1}
nsa = {"d_k": 192, "d_v": 128, "num_heads": 64, "num_kv_heads": 4}
moba = {"d_k": 128, "d_v": 128, "num_heads": 32, "num_kv_heads": 8}


def causal(own):
    return cost.fused(own, pairs=own.n * (own.n + 1) // 2)


def methods(n):
    own = sizes(n, **latents)
    index = {"index_heads": 64, "index_dim": 128}
    dsa_costs = cost.indexer(own, count=2048, **index)
    chosen = cost.fused(own, pairs=cost.allowed_pairs(n, n, window=(2047, 0)))
    yield "DSA, decoding", causal(own), dsa_costs, chosen
    made = sizes(n, d_k=128, d_v=128, **heads)
    pairs = n * (n + 1) // 2
    every = cost.latent(
        made, latent_dim=512, rotary_dim=64, absorb=False, pairs=pairs
    )
    yield "DSA, prompt", every, dsa_costs, chosen
    own = sizes(n, **moba)
    pairs = cost.block_pairs(n, block_size=512, count=3)
    chosen = cost.fused(own, pairs=pairs)
    spent = cost.moba(own, block_size=512, count=3)
    yield "MoBA", causal(own), spent, chosen
    own = sizes(n, **nsa)
    pairs = cost.block_pairs(n, block_size=64, count=16)
    near = cost.allowed_pairs(n, n, window=(511, 0))
    chosen = cost.fused(own, pairs=pairs) + cost.fused(own, pairs=near)
    blocks = {"block_size": 64, "count": 16, "window": 512}
    spent = cost.native_sparse(own, **blocks)
    yield "NSA", causal(own), spent, chosen


print("                tokens  all pairs     chosen   choosing  all/sum")
print("                      products, in 10¹² operations")
for n in (8192, 32768, 131072):
    for name, every, spent, chosen in methods(n):
        dense, total = every.operations.matmul, spent.operations.matmul
        read = chosen.operations.matmul
        print(f"{name:14}{n:8}{dense / 1e12:11.1f}{read / 1e12:11.2f}", end="")
        print(f"{(total - read) / 1e12:11.2f}{dense / total:9.1f}")
# --8<-- [end:example]
