"""What choosing costs, and what it saves, by the sizes of three models."""

# --8<-- [start:example]
from attnref import cost


def sizes(n, **options):
    return cost.Sizes(n=n, m=n, **options)


dsa = {"d_k": 576, "d_v": 512, "num_heads": 128, "num_kv_heads": 1}
nsa = {"d_k": 192, "d_v": 128, "num_heads": 64, "num_kv_heads": 4}
moba = {"d_k": 128, "d_v": 128, "num_heads": 32, "num_kv_heads": 8}


def methods(n):
    index = {"index_heads": 64, "index_dim": 128}
    own = sizes(n, **dsa)
    chosen = cost.fused(own, pairs=cost.allowed_pairs(n, n, window=(2047, 0)))
    yield "indexer", own, cost.indexer(own, count=2048, **index), chosen
    own = sizes(n, **moba)
    pairs = cost.block_pairs(n, block_size=512, count=3)
    chosen = cost.fused(own, pairs=pairs)
    yield "MoBA", own, cost.moba(own, block_size=512, count=3), chosen
    own = sizes(n, **nsa)
    pairs = cost.block_pairs(n, block_size=64, count=16)
    near = cost.allowed_pairs(n, n, window=(511, 0))
    chosen = cost.fused(own, pairs=pairs) + cost.fused(own, pairs=near)
    blocks = {"block_size": 64, "count": 16, "window": 512}
    yield "NSA", own, cost.native_sparse(own, **blocks), chosen


print("           tokens   all pairs     chosen   choosing   all/sum")
print("                    products, in 10¹² operations")
for n in (8192, 32768, 131072):
    for name, own, spent, chosen in methods(n):
        causal = cost.fused(own, pairs=n * (n + 1) // 2).operations.matmul
        total, read = spent.operations.matmul, chosen.operations.matmul
        print(
            f"{name:9} {n:7} {causal / 1e12:11.1f} {read / 1e12:10.2f}", end=""
        )
        print(f" {(total - read) / 1e12:10.2f} {causal / total:9.1f}")
# --8<-- [end:example]
