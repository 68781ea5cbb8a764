"""What a rank sends and holds, in each of the ways."""

# --8<-- [start:example]
import torch
from attnref import cost

sizes = cost.Sizes(
    n=2**20,
    m=2**20,
    d_k=128,
    d_v=128,
    num_heads=32,
    num_kv_heads=8,
    dtype=torch.bfloat16,
)


def row(name, sent):
    """GiB that a rank sends in a forward and in a backward pass."""
    print(f"{name:15}{sent.forward / 2**30:6.2f}{sent.backward / 2**30:7.2f}")


print("64 ranks      forward  backward")
row("ring", cost.sent("ring", sizes, ranks=64))
row("gather", cost.sent("gather", sizes, ranks=64))
for heads in (2, 4, 8):
    mesh = cost.sent("mesh", sizes, ranks=64, heads=heads)
    row(f"mesh {64 // heads} x {heads}", mesh)
row("8 ranks, ring", cost.sent("ring", sizes, ranks=8))
row("8 ranks, heads", cost.sent("ulysses", sizes, ranks=8))

spent = cost.ring(sizes, ranks=64, is_causal=True)
back = cost.ring(sizes, ranks=64, is_causal=True, backward=True)
output = 32 * sizes.n // 64 * (128 + 2) * 4  # with a maximum and a sum
print(f"ring of 64: holds {spent.held_bytes / 2**20:.0f} MiB beside its part,")
print(f"{output / 2**20:.0f} MiB of them its output so far,")
print(f"and in the backward pass {back.held_bytes / 2**20:.0f} MiB")

one = cost.Sizes(n=1, m=2**20, d_k=128, d_v=128, num_heads=32)
step = cost.sent("split_kv", one, ranks=8).forward
print(f"a step of decoding on 8 ranks sends {step / 2**10:.0f} KiB")
# --8<-- [end:example]
