"""Published numbers of three systems, and what counting says of them."""

# --8<-- [start:example]
import torch
from attnref import cost

half = torch.bfloat16
infiniband = cost.Link(50e9)

print("Ring Attention: tokens from which messages hide, and six times that")
heads = {"d_k": 128, "d_v": 128, "num_heads": 32}
for name, speed, bandwidth in (
    ("A100, NVLink", 312e12, 300e9),
    ("A100, InfiniBand", 312e12, 12.5e9),
    ("TPU v3", 123e12, 112e9),
    ("TPU v4", 275e12, 268e9),
    ("TPU v5e", 196e12, 186e9),
):
    block = cost.hiding_length(
        cost.Sizes(n=1, m=1, **heads, dtype=half),
        cost.Link(bandwidth),
        operations_per_second=speed,
    )
    print(f"  {name:17}{block:6.0f} {6 * block:7.0f}")


def of_405b(n, m=None):
    """An eighth of a layer of Llama 3 405B: 16 heads share one key head."""
    heads = {"d_k": 128, "d_v": 128, "num_heads": 16, "num_kv_heads": 1}
    return cost.Sizes(n=n, m=m or n, **heads, dtype=half)


def products(n):
    """Operations of all 126 layers on one GPU: attention, and the rest."""
    layer = cost.ring(of_405b(n), ranks=16, is_causal=True)
    return 126 * layer.operations.matmul, 2 * 405e9 * n / 128


print("\nPrefill of Llama 3 405B on 16 servers with 8 H100 each")
for n, measured in ((1_000_000, 77), (128_000, 3.8)):
    attention, rest = products(n)
    least, reached = (attention + rest) / 540e12, (attention + rest) / measured
    step = cost.mesh_time(
        of_405b(n),
        ranks=16,
        ring_link=infiniband,
        operations_per_second=540e12,
        is_causal=True,
    )
    print(f"  {n:7} tokens: {attention / (attention + rest):.0%} attention")
    print(f"    at 540e12: {least:.1f} s; measured: {measured} s", end="")
    print(f", {reached / 1e12:.0f}e12, {least / measured:.0%}")
    print(f"    a step computes {step.compute / 16 * 1e3:.2f} ms", end="")
    print(f" and sends {step.sending / 15 * 1e3:.2f} ms")

new, keys = 12_800, 128_000  # on 4 servers; a step takes 1608 and 631 us
step = cost.ring(of_405b(new, keys), ranks=4).operations.matmul / 4
block = of_405b(1, keys // 4).cache_bytes
print("\nA step with 12800 new tokens and 128000 keys, on 4 servers")
print(f"  computes at up to {step / 1608e-6 / 1e12:.0f}e12", end="")
print(f", sends {block / 1e6:.1f} MB at {block / 631e-6 / 1e9:.1f} GB/s")

attention, rest = products(131_072)
sent = cost.sent("gather", of_405b(131_072), ranks=16).forward
milliseconds = 1e3 / 126 / 380e12
print("\nTraining of Llama 3 405B, a layer forward, at 380e12")
print(
    f"  gathers {sent / 1e6:.1f} MB in {infiniband.seconds(sent) * 1e3:.2f} ms"
)
print(f"  attention takes {attention * milliseconds:.1f} ms", end="")
print(f", the rest {rest * milliseconds:.1f} ms")
# --8<-- [end:example]
