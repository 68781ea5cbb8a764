"""What choosing costs, and what it saves, by the sizes of three models."""

# --8<-- [start:example]
from attnref import cost


def sizes(n, **options):
    return cost.Sizes(n=n, m=n, **options)


heads = {"num_heads": 128}
latents = {"d_k": 576, "d_v": 512, **heads, "num_kv_heads": 1}
nsa = {"d_k": 192, "d_v": 128, "num_heads": 64, "num_kv_heads": 4}
moba = {"d_k": 128, "d_v": 128, "num_heads": 32, "num_kv_heads": 8}


def blocks(n, size, number):
    """Pairs of causal queries with so many blocks, their own included."""
    return sum(
        size * min(number - 1, i // size) + i % size + 1 for i in range(n)
    )


def causal(own):
    return cost.of("fused", own, pairs=own.n * (own.n + 1) // 2)


def methods(n):
    own = sizes(n, **latents)
    index = {"index_heads": 64, "index_dim": 128}
    dsa_costs = cost.of("indexer", own, num_keys=2048, **index)
    pairs = cost.allowed_pairs(n, n, window=(2047, 0))
    chosen = cost.of("fused", own, pairs=pairs)
    yield "DSA, decoding", causal(own), dsa_costs, chosen
    made = sizes(n, d_k=128, d_v=128, **heads)
    read_out = {"latent_dim": 512, "rotary_dim": 64, "absorb": False}
    every = cost.of("latent", made, **read_out, pairs=n * (n + 1) // 2)
    yield "DSA, prompt", every, dsa_costs, chosen
    own = sizes(n, **moba)
    chosen = cost.of("fused", own, pairs=blocks(n, 512, 3))
    spent = cost.of("moba", own, block_size=512, num_blocks=3)
    yield "MoBA", causal(own), spent, chosen
    own = sizes(n, **nsa)
    near = cost.allowed_pairs(n, n, window=(511, 0))
    chosen = cost.of("fused", own, pairs=blocks(n, 64, 16))
    chosen += cost.of("fused", own, pairs=near)
    read = {"block_size": 64, "num_blocks": 16, "window": 512}
    spent = cost.of("native_sparse", own, **read)
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
